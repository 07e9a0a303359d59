-- A page shows the last runs of each job, and how all of them ended: both are read from this index.
create index run_newest on run (
    job_id, (coalesce(started_at, scheduled_for)) desc, key, status, outcome, session_id, started_at
);
-- sub-agents are few, and were counted by reading all sessions
create index session_below on session (source, id) where id <> root_id;
