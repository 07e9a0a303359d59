-- How skills came into sessions, as the records tell it: index. A row without `entry` says that the
-- log itself counts the turn to the skill.
create table skill_entry (
    id integer not null unique,
    session_id integer not null,
    skill_name text not null,
    -- cron, tool, slash, preload or auto
    entry text,
    at integer,
    skill_version text,
    -- the turn that loaded it, or that was spent on it
    turn_id integer
) strict;
create index skill_entry_by_session on skill_entry (session_id);

-- One row a use of a skill in a session, with the share of the session that it is charged with: the
-- shares of a session add up to what it cost. Named in the plural, since scripts know it so.
create table skill_invocations (
    id integer primary key,
    -- `source:id` where the session is recorded here, else as it was told
    session_id text,
    -- the recorded session at the top of its sub-agents' tree
    root_id integer,
    job_id text,
    skill_name text not null,
    -- what the skill declares, else a hash of its text
    skill_version text,
    entry text,
    invoked_at integer,
    completed_at integer,
    -- in the store's time zone, fixed when recorded, so that statistics only compare text
    day text not null,
    model text,
    provider text,
    duration_seconds real,
    input_tokens integer,
    output_tokens integer,
    cache_read_tokens integer,
    cache_write_tokens integer,
    -- whole billionths, so that shares add up; at list price also where a plan included it
    cost_nanos integer,
    cost_usd real generated always as (cost_nanos / 1e9) virtual,
    cost_status text not null default 'unknown',
    cost_source text,
    -- 1, 0, or null where nobody knows
    success integer,
    end_reason text,
    quality_score real,
    share real not null default 1.0,
    -- 1 for what was told through the API: a fact, which no rebuild touches
    is_told integer not null default 1,
    -- the rest of the charge, so that a report by skill adds up like any other
    turns integer not null default 1,
    partial_turns integer not null default 0,
    unpriced_turns integer not null default 0,
    cache_write_1h_tokens integer,
    reasoning_tokens integer,
    included_nanos integer not null default 0,
    tool_calls integer not null default 0,
    tool_failures integer not null default 0
) strict;
create index skill_invocations_by_skill on skill_invocations (skill_name, invoked_at);
create index skill_invocations_by_job on skill_invocations (job_id, invoked_at);
-- one row for a session, skill and way in: telling it again updates it
create unique index skill_invocations_by_session
    on skill_invocations (session_id, skill_name, coalesce(entry, ''));
-- what was told of a session before the session itself was read
create index skill_invocations_to_join on skill_invocations (session_id)
    where root_id is null and session_id is not null;
-- all that an average over the last days needs, in the order it is grouped by
create index skill_invocations_by_day on skill_invocations (
    day, skill_name, model, provider, success, cost_nanos, duration_seconds, invoked_at
);

create view skill_stats_daily as
select skill_name, model, provider, day,
    count(*) as invocation_count,
    sum(case when success = 1 then 1 else 0 end) as success_count,
    sum(case when success = 0 then 1 else 0 end) as failure_count,
    sum(case when success is null then 1 else 0 end) as unknown_count,
    avg(duration_seconds) as avg_duration_s,
    sum(cost_nanos) / 1e9 as total_cost_usd,
    avg(cost_nanos) / 1e9 as avg_cost_usd,
    sum(case when cost_nanos is null then 1 else 0 end) as unpriced_count,
    sum(input_tokens) as total_input_tokens,
    sum(output_tokens) as total_output_tokens,
    avg(quality_score) as avg_quality_score,
    max(invoked_at) as last_invoked_at
from skill_invocations
group by skill_name, model, provider, day;
