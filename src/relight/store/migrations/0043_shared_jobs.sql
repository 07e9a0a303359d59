-- Jobs that other machines may run.

-- null is this store's own schedulers; else any, machine:NAME or label:NAME
alter table job add column place text;
-- words that jobs may ask for
alter table machine add column labels text not null default '';

create table remote_run (
    -- Runs of this machine whose slot it claimed at the server that it has joined. `run_id` is
    -- the run here, `server_run_id` there, and `holder` the claim's.
    run_id integer primary key,
    server_run_id integer not null,
    store_id text not null,
    holder text not null,
    -- 1 if the server has its result
    is_reported integer not null default 0
) strict;
