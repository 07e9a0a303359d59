-- Failed calls added up by day: pages counted the sessions of each failed call, and of each range
-- of places, one by one. The sums are of all sessions: a filter by more than days reads single
-- calls, and so does a person who does not see all rows. They are written where tool_day is.
create table failure_day (
    -- Calls of one day by kind of failure and tool, by kind of work, length of the session and
    -- place in it, or by kind of work and length, as `what` says. Sessions with calls of several
    -- days are not among them.
    what text not null,
    day text not null,
    number integer not null,
    kind text,
    tool text,
    category text,
    length integer,
    position integer,
    -- the sessions with a failure
    sessions integer not null,
    tool_calls integer not null,
    tool_failures integer not null,
    failed_turns integer not null,
    -- the sessions that failed last, and when
    first_root integer,
    first_at integer,
    second_root integer,
    second_at integer,
    third_root integer,
    third_at integer,
    primary key (what, day, number)
) strict, without rowid;
create table failure_session (
    -- The sessions that a day's sums do not tell apart: those with calls of several days, which
    -- are in no sum, and of the others those in which a tool failed often.
    day text not null,
    session_id integer not null,
    has_days integer not null,
    primary key (day, session_id)
) strict, without rowid;
create trigger failure_category_changed after update of category on session
when new.category is distinct from old.category begin
    insert into stale_day (day) select distinct day from position_day
    where session_id in (select id from session where root_id = new.id)
    on conflict (day) do nothing;
end;
insert into stale_day (day) select distinct day from call_day where 1 = 1 on conflict do nothing;
-- failed sessions without a job are counted from the index alone
drop index session_failed;
create index session_failed on session (
    (case when ended_at is not null then ended_at when started_at is not null then started_at
        else 9223372036854775807 end), id, key, started_at, ended_at
) where outcome = 'failure';
