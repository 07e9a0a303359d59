-- How a session ended, as its own records tell it; its outcome is judged from these and the rest.
alter table session add column ending text;
-- when a person last said something: what was proven before that proves nothing
alter table session add column prompted_at integer;
alter table session add column answer text;
-- what the source itself says came of it
alter table session add column told_outcome text;
-- a scheduled job's script that failed before the agent began
alter table session add column script_error text;

-- what the tests said that a call ran: passed or failed, whatever its exit code
alter table tool_call add column tests text;

-- A person's word on a session: a fact that wins over all other evidence.
create table label (
    session_id integer primary key,
    outcome text not null,
    why text,
    labelled_at integer not null
) strict;

-- Scheduled jobs and their runs, also those of other agents' schedulers. Facts: ledgers forget.
create table job (
    id integer primary key,
    source text not null,
    key text not null,
    name text not null,
    schedule text,
    prompt text,
    skills text,
    model text,
    provider text,
    script text,
    state text,
    created_at integer,
    next_run_at integer
) strict;

create table run (
    id integer primary key,
    source text not null,
    key text not null,
    job_id integer not null,
    session_id integer,
    -- what the scheduler's ledger says, and the error it kept
    status text not null,
    error text,
    scheduled_for integer,
    started_at integer,
    finished_at integer,
    outcome text,
    outcome_evidence text
) strict;
create index run_by_job on run (job_id, started_at);
create index run_by_session on run (session_id);

-- How long single model calls took, where a log tells it and the session's record does not.
create table call_latency (
    id integer primary key,
    session_id integer not null,
    model text,
    latency_ms integer not null
) strict;
create index call_latency_by_session on call_latency (session_id);
