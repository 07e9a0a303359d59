-- A person who sees some projects is shown sums of rows that an index has, if it also has what
-- says whose each row is.
drop index session_hour_by_source;
create index session_hour_by_source on session_hour (
    source, hour, first_at, turns, unpriced_turns, tokens, nanos, session_id
);
drop index skill_run_by_skill;
create index skill_run_by_skill on skill_run (
    skill_name, job_id, project, model, success, nanos, last_at, use_id
);
drop index skill_invocations_by_day;
create index skill_invocations_by_day on skill_invocations (
    day, skill_name, model, provider, success, cost_nanos, cost_status, duration_seconds, invoked_at,
    root_id, job_id, turns, partial_turns, unpriced_turns, input_tokens, cache_read_tokens,
    cache_write_tokens, cache_write_1h_tokens, output_tokens, reasoning_tokens, included_nanos,
    tool_calls, tool_failures, machine_id, id
);
-- For such a person PostgreSQL finds nothing by `coalesce`, which it does not know to be silent about
-- the rows of others.
drop index session_failed;
create index session_failed on session (
    (case when ended_at is not null then ended_at when started_at is not null then started_at
        else 9223372036854775807 end)
) where outcome = 'failure';
