-- A list of tasks, each run in both arms. All that a person asked for is in its definition, a JSON
-- object; status is running, stopped or done.
create table experiment (
    id integer primary key,
    name text not null unique,
    definition text not null,
    status text not null,
    -- why it stands still
    note text,
    -- the process that is at it, and until when it said it would be
    holder text,
    lease_until integer,
    -- 1 when it is to stop after the run it is at, 2 when at once
    stop integer not null default 0,
    created_at integer not null,
    ended_at integer
) strict;

-- One task in one arm, on record before its work begins; done ones are never done again. A run
-- that was interrupted is begun anew, and keeps the sessions that it had cost before.
create table experiment_run (
    experiment_id integer not null,
    task text not null,
    round integer not null,
    arm text not null,
    -- running, done, interrupted or skipped
    status text not null,
    attempts integer not null,
    -- as `source:id`; the last of all that it took
    session text,
    sessions text not null,
    outcome text,
    evidence text,
    -- what it was started with
    template text,
    similarity real,
    cost_nanos integer,
    tokens integer,
    duration_ms integer,
    started_at integer not null,
    finished_at integer,
    primary key (experiment_id, task, round, arm)
) strict, without rowid;

-- Provisions of an experiment are dealt by its tasks, not by chance: they are in no other count of
-- the arms.
alter table provision add column experiment_id integer;
