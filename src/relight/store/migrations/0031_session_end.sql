-- the sessions that are running now are found without reading all
create index session_by_end on session (ended_at);
