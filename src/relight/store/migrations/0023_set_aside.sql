create table set_aside (
    -- Pieces of files that no worker process could seal: each try took too much CPU time, or ended
    -- the process. `position` is the byte, or the row of a database, that the piece begins at.
    -- A row goes when the piece is recorded, or when its file is rewritten.
    origin_id integer not null references origin (id),
    part text not null,
    position integer not null,
    generation integer not null,
    reason text not null,
    tries integer not null,
    -- the version of Relight that tried last: another one tries again
    version text not null,
    -- 1 if the file is read no further, 0 if the piece is a session beside others in its file
    holds_file integer not null,
    -- the file at the last try: one that is smaller or another file was rewritten
    size integer not null,
    inode integer not null,
    seen_at integer not null,
    primary key (origin_id, part, position)
) strict, without rowid;
