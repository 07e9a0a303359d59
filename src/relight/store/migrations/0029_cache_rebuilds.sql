create table compaction (
    -- The moments at which an agent replaced the conversation so far by a summary.
    session_id integer not null,
    at integer not null,
    primary key (session_id, at)
) strict, without rowid;

create table cache_rebuild (
    -- Turns that read less from the prompt cache than was cached before, and wrote it again. They
    -- are compared with the turn before in the same session: each agent has its own prefix.
    -- Rows stand in the order of days, so that a report reads one stretch of the table.
    day text not null,
    turn_id integer not null,
    session_id integer not null,
    root_id integer not null,
    source text not null,
    project text,
    model text,
    at integer not null,
    -- compaction, model_switch, pause or prefix_changed
    cause text not null,
    -- the time since the turn before
    pause_ms integer not null,
    tokens integer not null,
    -- what writing these tokens cost, and what reading them would have cost; null: no price
    write_nanos integer,
    read_nanos integer,
    primary key (day, turn_id)
) strict, without rowid;
create index cache_rebuild_by_session on cache_rebuild (session_id);
