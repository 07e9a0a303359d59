-- The sessions that a run's earlier attempts left; the run itself names the last one's.
create table run_attempt (
    session_id integer primary key,
    run_id integer not null
) strict;
