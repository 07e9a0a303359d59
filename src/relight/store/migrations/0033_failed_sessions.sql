-- failed sessions of some days are found without reading those of all other days
drop index session_failed;
create index session_failed on session (
    (coalesce(ended_at, started_at, 9223372036854775807))
) where outcome = 'failure';
