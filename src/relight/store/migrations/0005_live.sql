-- A live session is judged after each of its events: what it ended with is found without reading
-- all of it.
drop index tool_call_by_session;
create index tool_call_by_session on tool_call (session_id, at);
create index tool_call_tested on tool_call (session_id, at) where tests is not null;
create index turn_failed on turn (session_id, at) where failure is not null;
