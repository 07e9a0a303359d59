-- All sums of days are read from this index alone, tokens too,
drop index session_day_by_day;
create index session_day_by_day on session_day (
    day, model, root_id, source, project, provider, turns, partial_turns, unpriced_turns,
    input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens,
    reasoning_tokens, cost_nanos, included_nanos, tool_calls, tool_failures, wall_ms
);
-- and the charges of skills from this one.
drop index skill_invocations_by_day;
create index skill_invocations_by_day on skill_invocations (
    day, skill_name, model, provider, success, cost_nanos, cost_status, duration_seconds, invoked_at,
    root_id, job_id, turns, partial_turns, unpriced_turns, input_tokens, cache_read_tokens,
    cache_write_tokens, cache_write_1h_tokens, output_tokens, reasoning_tokens, included_nanos,
    tool_calls, tool_failures
);
