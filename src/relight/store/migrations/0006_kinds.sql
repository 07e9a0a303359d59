-- What kind of work a call was: the side it takes in each view, the files it names, and whether it
-- hands the work in. Kinds and scores of sessions are counted from these.
alter table tool_call add column work text;

-- What the words of a stretch of records tell of a session, so that it is scored without reading
-- its tape again. One row a session and stretch: a stretch read anew takes its place.
create table session_words (
    session_id integer not null,
    origin_id integer not null,
    part text not null,
    offset integer not null,
    messages integer not null,
    user_messages integer not null,
    corrections integer not null,
    -- 1 if the stretch's first user message would be one: of a session's first it is the task
    is_first_correction integer not null,
    malformed integer not null,
    give_ups integer not null,
    primary key (session_id, origin_id, part, offset)
) strict, without rowid;

-- How long tools took, where only a witness beside the session's own record tells it.
create table call_timing (
    id integer primary key,
    session_id integer not null,
    tool text not null,
    -- when it ended; the call is the one of that tool whose result came then
    at integer not null,
    duration_ms integer not null
) strict;
create index call_timing_by_session on call_timing (session_id);
