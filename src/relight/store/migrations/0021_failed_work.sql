-- The few failed runs and sessions are found without reading all, whose rows hold long texts.
create index session_failed on session (id) where outcome = 'failure';
create index run_failed on run (id) where outcome = 'failure';
create index run_attempt_by_run on run_attempt (run_id);
