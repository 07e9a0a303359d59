-- Calls of tools added up by day: reports by tool counted the sessions of each one by one.
create table tool_day (
    -- The sum of the rows of `call_day` with the same day, source, project, model, provider, machine
    -- and tool, of the sessions whose calls are all of one such day and the rest. `call_day` has
    -- the others, with `is_spread`. A row without a tool counts the sessions that called any.
    day text not null,
    source text not null,
    project text,
    model text,
    provider text,
    machine_id integer,
    tool text,
    sessions integer not null,
    successes integer not null,
    failures integer not null,
    tool_calls integer not null,
    tool_failures integer not null,
    -- sums of squares and products of the calls and failures of each session
    calls_squared integer not null,
    failed_squared integer not null,
    calls_times_failed integer not null
) strict;
create index tool_day_by_day on tool_day (day);
create table stale_day (
    -- The days whose calls have changed since tool_day was written: their calls are read one by one
    -- until the next import adds them up.
    day text primary key
) strict, without rowid;
alter table call_day add column is_spread integer not null default 0;
create index call_day_spread on call_day (day, tool) where is_spread = 1;
create trigger call_day_added after insert on call_day begin
    insert into stale_day (day) values (new.day) on conflict (day) do nothing;
end;
create trigger call_day_removed after delete on call_day begin
    insert into stale_day (day) values (old.day) on conflict (day) do nothing;
end;
create trigger call_day_changed after update of root_id, day, source, project, model, provider, tool,
    machine_id, outcome, tool_calls, tool_failures on call_day
begin
    insert into stale_day (day) values (old.day) on conflict (day) do nothing;
    insert into stale_day (day) values (new.day) on conflict (day) do nothing;
end;
insert into stale_day (day) select distinct day from call_day;
-- The sums of all sessions since a moment are read from this index alone.
drop index listing_by_start;
create index listing_by_start on listing (
    began_at, root_id, outcome, turns, unpriced_turns, cost_nanos
);
