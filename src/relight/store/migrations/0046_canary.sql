-- Cheaper models on trial in jobs, what each slot was dealt, and every change of a job's model.

create table canary (
    id integer primary key,
    -- the job's full name
    job text not null,
    -- the model on trial, and the one in use
    model text not null,
    against text,
    -- JSON: the settings that make the job run on the one or the other
    change text not null,
    before text not null,
    margin real not null,
    -- the share of slots that the model on trial gets at first, and now
    first_share real not null,
    share real not null,
    -- what its runs may cost in all; null is no limit
    budget_nanos integer,
    is_auto integer not null,
    -- slots are dealt by a hash of this and their run's key
    seed text not null,
    started_at integer not null,
    -- running, promoted, stopped, rolled_back, replaced
    state text not null,
    -- good enough or worse, since the look that showed it
    verdict text,
    verdict_at integer,
    promoted_at integer,
    ended_at integer,
    -- why it ended
    reason text,
    -- ended runs of the job at the last look
    seen integer not null default 0,
    -- JSON: past tasks that were repeated
    replay text
) strict;
create unique index canary_open on canary (job) where state in ('running', 'promoted');

create table canary_deal (
    -- Written before its run begins. `run_id` is null until another scheduler's run is known.
    id integer primary key,
    canary_id integer not null,
    dealt_at integer not null,
    is_candidate integer not null,
    run_id integer
) strict;
create unique index canary_deal_by_run on canary_deal (run_id) where run_id is not null;
create index canary_deal_by_canary on canary_deal (canary_id, dealt_at);

create table job_switch (
    -- Every change of a job's model. `made_by` is a person's name, or auto.
    id integer primary key,
    job text not null,
    at integer not null,
    from_model text,
    to_model text,
    made_by text not null,
    reason text not null,
    canary_id integer
) strict;
create index job_switch_by_job on job_switch (job, at);
