-- Failed calls by their place in the session were numbered one by one for each page. The sums of
-- each session by day and range of places spare this. They have no model: most calls would be
-- looked up at their turn for a filter that is rare.
create table position_day (
    session_id integer not null,
    day text not null,
    -- the first place of the range
    position integer not null,
    root_id integer not null,
    source text not null,
    project text,
    machine_id integer,
    tool_calls integer not null,
    tool_failures integer not null,
    failed_turns integer not null,
    -- when a call failed last
    failed_at integer,
    primary key (session_id, day, position)
) strict, without rowid;
create index position_day_by_day on position_day (
    day, root_id, position, tool_calls, tool_failures, failed_turns, failed_at, source, project
);

insert into position_day (session_id, day, position, root_id, source, project, machine_id,
    tool_calls, tool_failures, failed_turns, failed_at)
select session.id, placed.day, placed.position, session.root_id, session.source, session.project,
    session.machine_id, sum(placed.tool_calls), sum(placed.tool_failures),
    sum(placed.failed_turns), max(placed.failed_at)
from (
    select session_id, day, tool_calls, tool_failures, failed_turns, failed_at,
        case when number >= 301 then 301 when number >= 101 then 101 when number >= 31 then 31
            when number >= 11 then 11 else 1 end as position
    from (
        select session_id, day, tool_calls, tool_failures, failed_turns, failed_at,
            sum(tool_calls) over (
                partition by session_id order by at nulls last, place nulls last
                rows unbounded preceding
            ) + failed_turns as number
        from (
            select session_id, coalesce(day, 'unknown') as day, at, place, 1 as tool_calls,
                case when label = 'error' then 1 else 0 end as tool_failures, 0 as failed_turns,
                case when label = 'error' then at end as failed_at
            from tool_call
            union all
            select session_id, coalesce(day, 'unknown'), at, cast(null as bigint), 0, 0, 1, at
            from turn where failure is not null
        ) as calls
    ) as numbered
) as placed join session on session.id = placed.session_id
group by session.id, placed.day, placed.position, session.root_id, session.source,
    session.project, session.machine_id;
