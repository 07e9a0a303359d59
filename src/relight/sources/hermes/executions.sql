-- Hermes' ledger of scheduled runs, cron/executions.db.

create table executions (
    id text primary key,
    job_id text not null,
    source text not null,
    process_id text not null,
    pid integer not null,
    process_started_at integer,
    status text not null check (status in ('claimed', 'running', 'completed', 'failed', 'unknown')),
    claimed_at text not null,
    started_at text,
    finished_at text,
    error text
);

create index idx_executions_job_claimed on executions (job_id, claimed_at desc, id desc);
create index idx_executions_status_claimed on executions (status, claimed_at desc, id desc);
