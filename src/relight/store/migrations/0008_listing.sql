-- One narrow row for each session that reports count, with its sub-agents' figures, so that lists
-- are searched, sorted and paged without adding up all there is. Kept by the database itself: many
-- hands write the roll-up, and none of them can forget it.
create table listing (
    root_id integer primary key,
    -- when it began, 0 where nobody knows, so that every row has a place in the order
    began_at integer not null,
    source text not null,
    project text,
    -- what a search looks through
    words text not null,
    outcome text,
    category text,
    score real,
    -- how many rows of the roll-up it is the sum of
    parts integer not null,
    turns integer not null,
    unpriced_turns integer not null,
    tokens integer not null,
    cost_nanos integer not null,
    included_nanos integer not null,
    tool_calls integer not null,
    tool_failures integer not null,
    wall_ms integer not null
) strict;
create index listing_by_start on listing (began_at);
create index listing_by_cost on listing (cost_nanos);

create trigger session_day_added after insert on session_day begin
    insert into listing
    select new.root_id, coalesce(started_at, 0), new.source, project,
        coalesce(title, '') || ' ' || coalesce(project, '') || ' ' || key, outcome, category, score,
        0, 0, 0, 0, 0, 0, 0, 0, 0
    from session where id = new.root_id
    on conflict do nothing;
    update listing set parts = parts + 1, turns = turns + new.turns,
        unpriced_turns = unpriced_turns + new.unpriced_turns,
        tokens = tokens + coalesce(new.input_tokens, 0) + coalesce(new.cache_read_tokens, 0)
            + coalesce(new.cache_write_tokens, 0) + coalesce(new.output_tokens, 0),
        cost_nanos = cost_nanos + new.cost_nanos,
        included_nanos = included_nanos + new.included_nanos,
        tool_calls = tool_calls + new.tool_calls,
        tool_failures = tool_failures + new.tool_failures, wall_ms = wall_ms + new.wall_ms
    where root_id = new.root_id;
end;

create trigger session_day_taken after delete on session_day begin
    update listing set parts = parts - 1, turns = turns - old.turns,
        unpriced_turns = unpriced_turns - old.unpriced_turns,
        tokens = tokens - coalesce(old.input_tokens, 0) - coalesce(old.cache_read_tokens, 0)
            - coalesce(old.cache_write_tokens, 0) - coalesce(old.output_tokens, 0),
        cost_nanos = cost_nanos - old.cost_nanos,
        included_nanos = included_nanos - old.included_nanos,
        tool_calls = tool_calls - old.tool_calls,
        tool_failures = tool_failures - old.tool_failures, wall_ms = wall_ms - old.wall_ms
    where root_id = old.root_id;
    delete from listing where root_id = old.root_id and parts = 0;
end;

create trigger session_day_changed after update on session_day begin
    update listing set turns = turns + new.turns - old.turns,
        unpriced_turns = unpriced_turns + new.unpriced_turns - old.unpriced_turns,
        tokens = tokens + coalesce(new.input_tokens, 0) + coalesce(new.cache_read_tokens, 0)
            + coalesce(new.cache_write_tokens, 0) + coalesce(new.output_tokens, 0)
            - coalesce(old.input_tokens, 0) - coalesce(old.cache_read_tokens, 0)
            - coalesce(old.cache_write_tokens, 0) - coalesce(old.output_tokens, 0),
        cost_nanos = cost_nanos + new.cost_nanos - old.cost_nanos,
        included_nanos = included_nanos + new.included_nanos - old.included_nanos,
        tool_calls = tool_calls + new.tool_calls - old.tool_calls,
        tool_failures = tool_failures + new.tool_failures - old.tool_failures,
        wall_ms = wall_ms + new.wall_ms - old.wall_ms
    where root_id = new.root_id;
end;

create trigger session_retold after update of title, project, started_at, outcome, category, score
on session when new.title is not old.title or new.project is not old.project
    or new.started_at is not old.started_at or new.outcome is not old.outcome
    or new.category is not old.category or new.score is not old.score
begin
    update listing set began_at = coalesce(new.started_at, 0), project = new.project,
        words = coalesce(new.title, '') || ' ' || coalesce(new.project, '') || ' ' || new.key,
        outcome = new.outcome, category = new.category, score = new.score
    where root_id = new.id;
end;

insert into listing
select session_day.root_id, coalesce(started_at, 0), session.source, session.project,
    coalesce(title, '') || ' ' || coalesce(session.project, '') || ' ' || key, outcome, category,
    score, count(*), sum(turns), sum(unpriced_turns),
    sum(coalesce(input_tokens, 0) + coalesce(cache_read_tokens, 0)
        + coalesce(cache_write_tokens, 0) + coalesce(output_tokens, 0)),
    sum(cost_nanos), sum(included_nanos), sum(tool_calls), sum(tool_failures), sum(wall_ms)
from session_day join session on session.id = session_day.root_id
group by session_day.root_id;

-- the rows behind one session's figures, and the steps of a long one from anywhere in it
create index session_day_by_root on session_day (root_id);
drop index turn_by_session;
create index turn_by_session on turn (session_id, at);
