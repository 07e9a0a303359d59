-- The roll-up of single calls: one row a session, day, model, tool and kind of failure, and one for
-- model calls that got no answer, which have no tool.
create table call_day (
    session_id integer not null,
    root_id integer not null,
    day text not null,
    source text not null,
    project text,
    model text,
    provider text,
    tool text,
    kind text,
    tool_calls integer not null,
    tool_failures integer not null,
    failed_turns integer not null,
    last_at integer
) strict;
create index call_day_by_day on call_day (day);
create index call_day_by_session on call_day (session_id);
create index call_day_failed on call_day (day, kind, tool)
    where tool_failures > 0 or failed_turns > 0;

insert into call_day
select tool_call.session_id, session.root_id, coalesce(tool_call.day, 'unknown'), session.source,
    session.project, coalesce(turn.model, session.model), turn.provider, tool, kind, count(*),
    sum(case when label = 'error' then 1 else 0 end), 0, max(tool_call.at)
from tool_call join session on session.id = tool_call.session_id
left join turn on turn.id = tool_call.turn_id
group by tool_call.session_id, tool_call.day, coalesce(turn.model, session.model), turn.provider,
    tool, kind
union all
select turn.session_id, session.root_id, coalesce(turn.day, 'unknown'), session.source,
    session.project, turn.model, turn.provider, null, failure, 0, 0, count(*), max(turn.at)
from turn join session on session.id = turn.session_id
where failure is not null
group by turn.session_id, turn.day, turn.model, turn.provider, failure;
