-- The projects that people may see, and the tapes that they read.

create table member (
    -- A person sees the sessions of their own machines, and those of these projects. `project` is a
    -- folder, the last part of one, or `*` for everything. `role` is reader, or lead, who may also
    -- label its sessions.
    person_id integer not null references person (id),
    project text not null,
    role text not null,
    granted_at integer not null,
    primary key (person_id, project)
) strict, without rowid;

create table tape_read (
    -- The people who read a session's tape on the server, once for each hour in which they did.
    person_id integer not null references person (id),
    session_id integer not null,
    -- in hours since 1970
    hour integer not null,
    read_at integer not null,
    primary key (person_id, session_id, hour)
) strict, without rowid;
create index tape_read_by_session on tape_read (session_id);

-- the names of all projects are found without a look at every session
create index listing_by_project on listing (project);
