-- Lessons are those of the newest sessions of each project: the index has them in this order.
create index session_by_project on session (
    project, machine_id, started_at desc, id, root_id, ended_at, parent_kind
);
