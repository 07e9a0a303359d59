-- What was told of skills in sessions: facts, which no rebuild touches. They stand apart from the uses
-- they become in skill_invocations, where what was not told is derived from the session's own records,
-- so that either may come first, and come again. What was left out is null.
create table skill_told (
    id integer primary key,
    -- `source:id` where the session is recorded here, else as it was told
    session_id text not null,
    skill_name text not null,
    entry text,
    job_id text,
    skill_version text,
    invoked_at integer,
    completed_at integer,
    model text,
    provider text,
    duration_seconds real,
    input_tokens integer,
    output_tokens integer,
    cache_read_tokens integer,
    cache_write_tokens integer,
    cost_nanos integer,
    cost_status text,
    cost_source text,
    success integer,
    end_reason text,
    quality_score real,
    share real
) strict;
create unique index skill_told_by_session
    on skill_told (session_id, skill_name, coalesce(entry, ''));
insert into skill_told
select id, session_id, skill_name, entry, job_id, skill_version, invoked_at, completed_at, model,
    provider, duration_seconds, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
    cost_nanos, nullif(cost_status, 'unknown'), cost_source, success, end_reason, quality_score,
    nullif(share, 1.0)
from skill_invocations where is_told = 1 and session_id is not null;

-- What the session's records charge a use with, where other figures were told of it: a report adds up
-- what sessions spent, whatever was told.
create table skill_charge (
    -- the use in skill_invocations
    id integer primary key,
    root_id integer not null,
    turns integer not null,
    partial_turns integer not null,
    unpriced_turns integer not null,
    input_tokens integer,
    cache_read_tokens integer,
    cache_write_tokens integer,
    cache_write_1h_tokens integer,
    output_tokens integer,
    reasoning_tokens integer,
    cost_nanos integer,
    included_nanos integer not null,
    tool_calls integer not null,
    tool_failures integer not null,
    duration_seconds real
) strict;
create index skill_charge_by_root on skill_charge (root_id);

-- A cost of which only a part is known is in sums, where it is a least, and in no mean: the index has
-- all that an average over the last days needs, in the order it is grouped by.
drop index skill_invocations_by_day;
create index skill_invocations_by_day on skill_invocations (
    day, skill_name, model, provider, success, cost_nanos, cost_status, duration_seconds, invoked_at
);
-- facts look for their session now
drop index skill_invocations_to_join;

drop view skill_stats_daily;
create view skill_stats_daily as
select skill_name, model, provider, day,
    count(*) as invocation_count,
    sum(case when success = 1 then 1 else 0 end) as success_count,
    sum(case when success = 0 then 1 else 0 end) as failure_count,
    sum(case when success is null then 1 else 0 end) as unknown_count,
    avg(duration_seconds) as avg_duration_s,
    sum(cost_nanos) / 1e9 as total_cost_usd,
    avg(case when cost_status <> 'partial' then cost_nanos end) / 1e9 as avg_cost_usd,
    sum(case when cost_nanos is null or cost_status = 'partial' then 1 else 0 end)
        as unpriced_count,
    sum(input_tokens) as total_input_tokens,
    sum(output_tokens) as total_output_tokens,
    avg(quality_score) as avg_quality_score,
    max(invoked_at) as last_invoked_at
from skill_invocations
group by skill_name, model, provider, day;
