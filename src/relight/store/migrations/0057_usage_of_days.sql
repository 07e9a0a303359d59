-- Reports count sessions by outcome: each row has that of the session with its sub-agents, so that
-- no session is looked up for it.
alter table session_day add column outcome text;
alter table call_day add column outcome text;
drop index session_day_by_day;
drop index call_day_by_tool;
drop index call_day_failed;
update session_day set outcome = (select outcome from session where id = session_day.root_id);
update call_day set outcome = (select outcome from session where id = call_day.root_id);
-- A person who sees some projects reads these indexes alone too.
create index call_day_by_tool on call_day (
    tool, day, root_id, tool_calls, tool_failures, failed_turns, outcome, project, machine_id
) where tool is not null;
create index call_day_failed on call_day (
    day, kind, tool, root_id, session_id, tool_calls, tool_failures, failed_turns, last_at, outcome,
    project, machine_id
) where tool_failures > 0 or failed_turns > 0;
create trigger session_outcome_changed after update of outcome on session
when new.outcome is distinct from old.outcome begin
    update session_day set outcome = new.outcome where root_id = new.id;
    update call_day set outcome = new.outcome
    where session_id in (select id from session where root_id = new.id);
end;
create trigger session_outcome_removed after delete on session begin
    update session_day set outcome = null where root_id = old.id;
    update call_day set outcome = null
    where session_id in (select id from session where root_id = old.id);
end;

-- 1 if no other row has the same root: such rows count their sessions, all others are few.
alter table session_day add column is_alone integer not null default 1;
-- a bit for each column that is null: a sum is null only if all of its parts are
alter table session_day add column unknown integer generated always as (
        case when project is null then 1 else 0 end +
        case when model is null then 2 else 0 end +
        case when provider is null then 4 else 0 end +
        case when machine_id is null then 8 else 0 end +
        case when input_tokens is null then 16 else 0 end +
        case when cache_read_tokens is null then 32 else 0 end +
        case when cache_write_tokens is null then 64 else 0 end +
        case when cache_write_1h_tokens is null then 128 else 0 end +
        case when output_tokens is null then 256 else 0 end +
        case when reasoning_tokens is null then 512 else 0 end
    ) virtual;
update session_day set is_alone = 0 where root_id in (
    select root_id from session_day group by root_id having count(*) > 1
);
create index session_day_by_day on session_day (
    day, model, root_id, source, project, provider, turns, partial_turns, unpriced_turns,
    input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens,
    reasoning_tokens, cost_nanos, included_nanos, tool_calls, tool_failures, wall_ms, outcome,
    is_alone, machine_id
);
create index session_day_shared on session_day (
    day, model, root_id, source, project, provider, outcome, machine_id
) where is_alone = 0;
create table usage_day (
    -- What reports add up: the sum of all rows of `session_day` with the same day, source, project,
    -- model, provider and machine, and the same columns known. Triggers keep it equal to
    -- usage_day_now.
    day text not null,
    source text not null,
    project text,
    model text,
    provider text,
    machine_id integer,
    unknown integer not null,
    -- the number of session_day rows that it is the sum of
    parts integer not null,
    turns integer not null,
    partial_turns integer not null,
    unpriced_turns integer not null,
    input_tokens integer,
    cache_read_tokens integer,
    cache_write_tokens integer,
    cache_write_1h_tokens integer,
    output_tokens integer,
    reasoning_tokens integer,
    cost_nanos integer not null,
    included_nanos integer not null,
    tool_calls integer not null,
    tool_failures integer not null,
    wall_ms integer not null,
    -- the sessions that have no other row
    sessions integer not null,
    successes integer not null,
    failures integer not null,
    -- sums of all sessions whose outcome is known
    rated_turns integer not null,
    rated_unpriced_turns integer not null,
    rated_cost_nanos integer not null
) strict;
create view usage_day_now as
select
    day, source, project, model, provider, machine_id, unknown, count(*) as parts,
    sum(turns) as turns, sum(partial_turns) as partial_turns, sum(unpriced_turns) as unpriced_turns,
    sum(input_tokens) as input_tokens, sum(cache_read_tokens) as cache_read_tokens,
    sum(cache_write_tokens) as cache_write_tokens,
    sum(cache_write_1h_tokens) as cache_write_1h_tokens, sum(output_tokens) as output_tokens,
    sum(reasoning_tokens) as reasoning_tokens, sum(cost_nanos) as cost_nanos,
    sum(included_nanos) as included_nanos, sum(tool_calls) as tool_calls,
    sum(tool_failures) as tool_failures, sum(wall_ms) as wall_ms, sum(is_alone) as sessions,
    sum(case when outcome = 'success' then is_alone else 0 end) as successes,
    sum(case when outcome = 'failure' then is_alone else 0 end) as failures,
    sum(case when outcome in ('success', 'failure') then turns else 0 end) as rated_turns,
    sum(case when outcome in ('success', 'failure') then unpriced_turns else 0 end) as rated_unpriced_turns,
    sum(case when outcome in ('success', 'failure') then cost_nanos else 0 end) as rated_cost_nanos
from session_day
group by day, source, project, model, provider, machine_id, unknown;
insert into usage_day (
    day, source, project, model, provider, machine_id, unknown, parts, turns, partial_turns,
    unpriced_turns, input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens,
    output_tokens, reasoning_tokens, cost_nanos, included_nanos, tool_calls, tool_failures, wall_ms,
    sessions, successes, failures, rated_turns, rated_unpriced_turns, rated_cost_nanos
) select
    day, source, project, model, provider, machine_id, unknown, parts, turns, partial_turns,
    unpriced_turns, input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens,
    output_tokens, reasoning_tokens, cost_nanos, included_nanos, tool_calls, tool_failures, wall_ms,
    sessions, successes, failures, rated_turns, rated_unpriced_turns, rated_cost_nanos
from usage_day_now;
create unique index usage_day_by_day on usage_day (
    day, source, coalesce(project, ''), coalesce(model, ''), coalesce(provider, ''),
    coalesce(machine_id, 0), unknown
);
create trigger usage_added after insert on session_day begin
    insert into usage_day (
        day, source, project, model, provider, machine_id, unknown, parts, turns, partial_turns,
        unpriced_turns, input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens,
        output_tokens, reasoning_tokens, cost_nanos, included_nanos, tool_calls, tool_failures,
        wall_ms, sessions, successes, failures, rated_turns, rated_unpriced_turns, rated_cost_nanos
    ) values (
        new.day, new.source, new.project, new.model, new.provider, new.machine_id, new.unknown, 1,
        new.turns, new.partial_turns, new.unpriced_turns, new.input_tokens, new.cache_read_tokens,
        new.cache_write_tokens, new.cache_write_1h_tokens, new.output_tokens, new.reasoning_tokens,
        new.cost_nanos, new.included_nanos, new.tool_calls, new.tool_failures, new.wall_ms,
        new.is_alone, case when new.outcome = 'success' then new.is_alone else 0 end,
        case when new.outcome = 'failure' then new.is_alone else 0 end,
        case when new.outcome in ('success', 'failure') then new.turns else 0 end,
        case when new.outcome in ('success', 'failure') then new.unpriced_turns else 0 end,
        case when new.outcome in ('success', 'failure') then new.cost_nanos else 0 end
    ) on conflict (
        day, source, coalesce(project, ''), coalesce(model, ''), coalesce(provider, ''),
        coalesce(machine_id, 0), unknown
    ) do update set
        parts = usage_day.parts + excluded.parts, turns = usage_day.turns + excluded.turns,
        partial_turns = usage_day.partial_turns + excluded.partial_turns,
        unpriced_turns = usage_day.unpriced_turns + excluded.unpriced_turns,
        input_tokens = usage_day.input_tokens + excluded.input_tokens,
        cache_read_tokens = usage_day.cache_read_tokens + excluded.cache_read_tokens,
        cache_write_tokens = usage_day.cache_write_tokens + excluded.cache_write_tokens,
        cache_write_1h_tokens = usage_day.cache_write_1h_tokens + excluded.cache_write_1h_tokens,
        output_tokens = usage_day.output_tokens + excluded.output_tokens,
        reasoning_tokens = usage_day.reasoning_tokens + excluded.reasoning_tokens,
        cost_nanos = usage_day.cost_nanos + excluded.cost_nanos,
        included_nanos = usage_day.included_nanos + excluded.included_nanos,
        tool_calls = usage_day.tool_calls + excluded.tool_calls,
        tool_failures = usage_day.tool_failures + excluded.tool_failures,
        wall_ms = usage_day.wall_ms + excluded.wall_ms,
        sessions = usage_day.sessions + excluded.sessions,
        successes = usage_day.successes + excluded.successes,
        failures = usage_day.failures + excluded.failures,
        rated_turns = usage_day.rated_turns + excluded.rated_turns,
        rated_unpriced_turns = usage_day.rated_unpriced_turns + excluded.rated_unpriced_turns,
        rated_cost_nanos = usage_day.rated_cost_nanos + excluded.rated_cost_nanos;
    update session_day set is_alone = 0 where root_id = new.root_id and is_alone = 1
        and (select count(*) from session_day as every where every.root_id = new.root_id) > 1;
end;
create trigger usage_removed after delete on session_day begin
    insert into usage_day (
        day, source, project, model, provider, machine_id, unknown, parts, turns, partial_turns,
        unpriced_turns, input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens,
        output_tokens, reasoning_tokens, cost_nanos, included_nanos, tool_calls, tool_failures,
        wall_ms, sessions, successes, failures, rated_turns, rated_unpriced_turns, rated_cost_nanos
    ) values (
        old.day, old.source, old.project, old.model, old.provider, old.machine_id, old.unknown, -1,
        -old.turns, -old.partial_turns, -old.unpriced_turns, -old.input_tokens,
        -old.cache_read_tokens, -old.cache_write_tokens, -old.cache_write_1h_tokens,
        -old.output_tokens, -old.reasoning_tokens, -old.cost_nanos, -old.included_nanos,
        -old.tool_calls, -old.tool_failures, -old.wall_ms, -old.is_alone,
        case when old.outcome = 'success' then -old.is_alone else 0 end,
        case when old.outcome = 'failure' then -old.is_alone else 0 end,
        case when old.outcome in ('success', 'failure') then -old.turns else 0 end,
        case when old.outcome in ('success', 'failure') then -old.unpriced_turns else 0 end,
        case when old.outcome in ('success', 'failure') then -old.cost_nanos else 0 end
    ) on conflict (
        day, source, coalesce(project, ''), coalesce(model, ''), coalesce(provider, ''),
        coalesce(machine_id, 0), unknown
    ) do update set
        parts = usage_day.parts + excluded.parts, turns = usage_day.turns + excluded.turns,
        partial_turns = usage_day.partial_turns + excluded.partial_turns,
        unpriced_turns = usage_day.unpriced_turns + excluded.unpriced_turns,
        input_tokens = usage_day.input_tokens + excluded.input_tokens,
        cache_read_tokens = usage_day.cache_read_tokens + excluded.cache_read_tokens,
        cache_write_tokens = usage_day.cache_write_tokens + excluded.cache_write_tokens,
        cache_write_1h_tokens = usage_day.cache_write_1h_tokens + excluded.cache_write_1h_tokens,
        output_tokens = usage_day.output_tokens + excluded.output_tokens,
        reasoning_tokens = usage_day.reasoning_tokens + excluded.reasoning_tokens,
        cost_nanos = usage_day.cost_nanos + excluded.cost_nanos,
        included_nanos = usage_day.included_nanos + excluded.included_nanos,
        tool_calls = usage_day.tool_calls + excluded.tool_calls,
        tool_failures = usage_day.tool_failures + excluded.tool_failures,
        wall_ms = usage_day.wall_ms + excluded.wall_ms,
        sessions = usage_day.sessions + excluded.sessions,
        successes = usage_day.successes + excluded.successes,
        failures = usage_day.failures + excluded.failures,
        rated_turns = usage_day.rated_turns + excluded.rated_turns,
        rated_unpriced_turns = usage_day.rated_unpriced_turns + excluded.rated_unpriced_turns,
        rated_cost_nanos = usage_day.rated_cost_nanos + excluded.rated_cost_nanos;
    delete from usage_day where parts = 0 and sessions = 0 and successes = 0 and failures = 0
        and day = old.day and source = old.source
        and coalesce(project, '') = coalesce(old.project, '')
        and coalesce(model, '') = coalesce(old.model, '')
        and coalesce(provider, '') = coalesce(old.provider, '')
        and coalesce(machine_id, 0) = coalesce(old.machine_id, 0) and unknown = old.unknown;
    update session_day set is_alone = 1 where root_id = old.root_id and is_alone = 0
        and (select count(*) from session_day as every where every.root_id = old.root_id) = 1;
end;
create trigger usage_changed after update on session_day begin
    insert into usage_day (
        day, source, project, model, provider, machine_id, unknown, parts, turns, partial_turns,
        unpriced_turns, input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens,
        output_tokens, reasoning_tokens, cost_nanos, included_nanos, tool_calls, tool_failures,
        wall_ms, sessions, successes, failures, rated_turns, rated_unpriced_turns, rated_cost_nanos
    ) values (
        old.day, old.source, old.project, old.model, old.provider, old.machine_id, old.unknown, -1,
        -old.turns, -old.partial_turns, -old.unpriced_turns, -old.input_tokens,
        -old.cache_read_tokens, -old.cache_write_tokens, -old.cache_write_1h_tokens,
        -old.output_tokens, -old.reasoning_tokens, -old.cost_nanos, -old.included_nanos,
        -old.tool_calls, -old.tool_failures, -old.wall_ms, -old.is_alone,
        case when old.outcome = 'success' then -old.is_alone else 0 end,
        case when old.outcome = 'failure' then -old.is_alone else 0 end,
        case when old.outcome in ('success', 'failure') then -old.turns else 0 end,
        case when old.outcome in ('success', 'failure') then -old.unpriced_turns else 0 end,
        case when old.outcome in ('success', 'failure') then -old.cost_nanos else 0 end
    ) on conflict (
        day, source, coalesce(project, ''), coalesce(model, ''), coalesce(provider, ''),
        coalesce(machine_id, 0), unknown
    ) do update set
        parts = usage_day.parts + excluded.parts, turns = usage_day.turns + excluded.turns,
        partial_turns = usage_day.partial_turns + excluded.partial_turns,
        unpriced_turns = usage_day.unpriced_turns + excluded.unpriced_turns,
        input_tokens = usage_day.input_tokens + excluded.input_tokens,
        cache_read_tokens = usage_day.cache_read_tokens + excluded.cache_read_tokens,
        cache_write_tokens = usage_day.cache_write_tokens + excluded.cache_write_tokens,
        cache_write_1h_tokens = usage_day.cache_write_1h_tokens + excluded.cache_write_1h_tokens,
        output_tokens = usage_day.output_tokens + excluded.output_tokens,
        reasoning_tokens = usage_day.reasoning_tokens + excluded.reasoning_tokens,
        cost_nanos = usage_day.cost_nanos + excluded.cost_nanos,
        included_nanos = usage_day.included_nanos + excluded.included_nanos,
        tool_calls = usage_day.tool_calls + excluded.tool_calls,
        tool_failures = usage_day.tool_failures + excluded.tool_failures,
        wall_ms = usage_day.wall_ms + excluded.wall_ms,
        sessions = usage_day.sessions + excluded.sessions,
        successes = usage_day.successes + excluded.successes,
        failures = usage_day.failures + excluded.failures,
        rated_turns = usage_day.rated_turns + excluded.rated_turns,
        rated_unpriced_turns = usage_day.rated_unpriced_turns + excluded.rated_unpriced_turns,
        rated_cost_nanos = usage_day.rated_cost_nanos + excluded.rated_cost_nanos;
    insert into usage_day (
        day, source, project, model, provider, machine_id, unknown, parts, turns, partial_turns,
        unpriced_turns, input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens,
        output_tokens, reasoning_tokens, cost_nanos, included_nanos, tool_calls, tool_failures,
        wall_ms, sessions, successes, failures, rated_turns, rated_unpriced_turns, rated_cost_nanos
    ) values (
        new.day, new.source, new.project, new.model, new.provider, new.machine_id, new.unknown, 1,
        new.turns, new.partial_turns, new.unpriced_turns, new.input_tokens, new.cache_read_tokens,
        new.cache_write_tokens, new.cache_write_1h_tokens, new.output_tokens, new.reasoning_tokens,
        new.cost_nanos, new.included_nanos, new.tool_calls, new.tool_failures, new.wall_ms,
        new.is_alone, case when new.outcome = 'success' then new.is_alone else 0 end,
        case when new.outcome = 'failure' then new.is_alone else 0 end,
        case when new.outcome in ('success', 'failure') then new.turns else 0 end,
        case when new.outcome in ('success', 'failure') then new.unpriced_turns else 0 end,
        case when new.outcome in ('success', 'failure') then new.cost_nanos else 0 end
    ) on conflict (
        day, source, coalesce(project, ''), coalesce(model, ''), coalesce(provider, ''),
        coalesce(machine_id, 0), unknown
    ) do update set
        parts = usage_day.parts + excluded.parts, turns = usage_day.turns + excluded.turns,
        partial_turns = usage_day.partial_turns + excluded.partial_turns,
        unpriced_turns = usage_day.unpriced_turns + excluded.unpriced_turns,
        input_tokens = usage_day.input_tokens + excluded.input_tokens,
        cache_read_tokens = usage_day.cache_read_tokens + excluded.cache_read_tokens,
        cache_write_tokens = usage_day.cache_write_tokens + excluded.cache_write_tokens,
        cache_write_1h_tokens = usage_day.cache_write_1h_tokens + excluded.cache_write_1h_tokens,
        output_tokens = usage_day.output_tokens + excluded.output_tokens,
        reasoning_tokens = usage_day.reasoning_tokens + excluded.reasoning_tokens,
        cost_nanos = usage_day.cost_nanos + excluded.cost_nanos,
        included_nanos = usage_day.included_nanos + excluded.included_nanos,
        tool_calls = usage_day.tool_calls + excluded.tool_calls,
        tool_failures = usage_day.tool_failures + excluded.tool_failures,
        wall_ms = usage_day.wall_ms + excluded.wall_ms,
        sessions = usage_day.sessions + excluded.sessions,
        successes = usage_day.successes + excluded.successes,
        failures = usage_day.failures + excluded.failures,
        rated_turns = usage_day.rated_turns + excluded.rated_turns,
        rated_unpriced_turns = usage_day.rated_unpriced_turns + excluded.rated_unpriced_turns,
        rated_cost_nanos = usage_day.rated_cost_nanos + excluded.rated_cost_nanos;
    delete from usage_day where parts = 0 and sessions = 0 and successes = 0 and failures = 0
        and day = old.day and source = old.source
        and coalesce(project, '') = coalesce(old.project, '')
        and coalesce(model, '') = coalesce(old.model, '')
        and coalesce(provider, '') = coalesce(old.provider, '')
        and coalesce(machine_id, 0) = coalesce(old.machine_id, 0) and unknown = old.unknown;
end;
