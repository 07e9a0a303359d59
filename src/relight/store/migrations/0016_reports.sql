-- models by day stand in order, and tools are added up without sorting their calls
drop index session_day_by_day;
create index session_day_by_day on session_day (day, model, root_id);
create index call_day_by_tool on call_day (
    tool, day, root_id, tool_calls, tool_failures, failed_turns
) where tool is not null;
