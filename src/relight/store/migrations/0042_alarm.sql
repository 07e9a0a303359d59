-- Changes for the worse of a job or a model, each noticed once.
create table alarm (
    id integer primary key,
    -- `job:…` or `model:…` with the name after it
    scope text not null,
    -- success or cost
    metric text not null,
    -- the likely first run of the change, and the run that showed it
    since integer not null,
    raised_at integer not null,
    -- shares of success, or median costs in dollars
    before real not null,
    after real not null,
    runs_before integer not null,
    failures_before integer not null,
    runs_after integer not null,
    failures_after integer not null,
    -- JSON: what changed at the same time
    changed text not null,
    -- when it was as before again
    ended_at integer,
    acknowledged_at integer
) strict;
create unique index alarm_open on alarm (scope, metric)
    where ended_at is null and acknowledged_at is null;
-- which jobs have new runs is seen without reading them
create index run_ended on run (job_id, finished_at, outcome);
