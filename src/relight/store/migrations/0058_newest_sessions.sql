-- Lessons are those of the newest sessions of each project and machine. They are looked up in this
-- order, in which no null has a place.
drop index session_by_project;
create index session_by_project on session (
    project, (coalesce(machine_id, 0)), (coalesce(started_at, 0)) desc, id, root_id, ended_at,
    parent_kind, machine_id, started_at
);
