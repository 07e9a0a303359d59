create table limit_report (
    -- How full a window of a plan was, as the agent reported it: in a session's records, or on its
    -- status line. The last report of each session on each window. What a status line reported is
    -- in no record, so no rebuild deletes a row.
    session_id integer not null,
    -- 5h or week
    kind text not null,
    ends_at integer not null,
    source text not null,
    at integer not null,
    used_percent real not null,
    primary key (session_id, kind, ends_at)
) strict, without rowid;
create index limit_report_by_end on limit_report (source, kind, ends_at);
