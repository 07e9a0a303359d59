-- The overview adds up the same days by several keys: each sum is read from this index alone.
drop index session_day_by_day;
create index session_day_by_day on session_day (
    day, model, root_id, source, project, provider, turns, unpriced_turns, cost_nanos,
    included_nanos, tool_calls, tool_failures
);
-- and a report by tool finds the sessions of its days here
drop index call_day_by_day;
create index call_day_by_day on call_day (day, root_id);
