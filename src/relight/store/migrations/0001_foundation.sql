-- Ids of sessions, turns and tool calls are hashes of the source's own ids (see ids.py), so that
-- reading in any order, by any number of processes, gives the same rows. They are unique, but not
-- the tables' own key: rows then stand in the order they came, and a commit writes few pages.

create table meta (
    key text primary key,
    value text not null
) strict, without rowid;

create table session (
    id integer not null unique,
    source text not null,
    key text not null,
    parent_id integer,
    parent_kind text,
    -- the session at the top of the sub-agents' tree: its own id where there is none above
    root_id integer not null,
    project text,
    title text,
    model text,
    version text,
    started_at integer,
    ended_at integer,
    outcome text,
    outcome_evidence text,
    task_type text,
    category text,
    score real,
    -- 1 when the tape was pruned: nothing can derive this session again
    is_frozen integer not null default 0
) strict;
create unique index session_by_key on session (source, key);
create index session_by_root on session (root_id);
create index session_by_start on session (started_at);

create table turn (
    id integer not null unique,
    session_id integer not null,
    at integer,
    -- in the store's time zone, fixed when recorded, so that reports only compare text
    day text,
    model text,
    provider text,
    role text,
    calls integer not null,
    input_tokens integer,
    cache_read_tokens integer,
    cache_write_tokens integer,
    cache_write_1h_tokens integer,
    output_tokens integer,
    reasoning_tokens integer,
    usage_status text not null,
    cost_nanos integer,
    cost_status text not null,
    cost_source text,
    duration_ms integer,
    first_token_ms integer,
    failure text,
    failure_text text,
    -- the running total whose rest this turn is; null for a single call
    total_id integer
) strict;
create index turn_by_session on turn (session_id);

-- A turn that a fork copied: it counts for the session that owns it, and is shown here.
create table shared_turn (
    session_id integer not null,
    turn_id integer not null,
    primary key (session_id, turn_id)
) strict, without rowid;

create table tool_call (
    id integer not null unique,
    session_id integer not null,
    turn_id integer,
    at integer,
    day text,
    finished_at integer,
    tool text not null,
    -- equal for the same tool with the same arguments
    fingerprint integer not null,
    arguments_bytes integer,
    result_bytes integer,
    exit_code integer,
    duration_ms integer,
    label text,
    kind text,
    reason text,
    evidence text
) strict;
create index tool_call_by_session on tool_call (session_id);

-- A client's own running total; what it shows beyond the known turns becomes one residual turn.
create table control_total (
    id integer primary key,
    session_id integer not null,
    with_children integer not null,
    at integer,
    model text,
    provider text,
    role text,
    calls integer,
    input_tokens integer,
    cache_read_tokens integer,
    cache_write_tokens integer,
    cache_write_1h_tokens integer,
    output_tokens integer,
    reasoning_tokens integer,
    cost_nanos integer,
    cost_status text,
    cost_source text
) strict;
create index control_total_by_session on control_total (session_id);

-- The roll-up that reports add from: one row a session, day, model and provider.
create table session_day (
    session_id integer not null,
    root_id integer not null,
    day text not null,
    source text not null,
    project text,
    model text,
    provider text,
    turns integer not null,
    partial_turns integer not null,
    unpriced_turns integer not null,
    input_tokens integer,
    cache_read_tokens integer,
    cache_write_tokens integer,
    cache_write_1h_tokens integer,
    output_tokens integer,
    reasoning_tokens integer,
    cost_nanos integer not null,
    included_nanos integer not null,
    tool_calls integer not null,
    tool_failures integer not null,
    wall_ms integer not null
) strict;
create index session_day_by_day on session_day (day);
create index session_day_by_session on session_day (session_id);

create table origin (
    id integer primary key,
    source text not null,
    path text not null
) strict;
create unique index origin_by_path on origin (source, path);

-- How far each part of an origin has been read ('' for a file; a session's id inside a database).
create table file_mark (
    origin_id integer not null references origin (id),
    part text not null,
    size integer not null,
    modified_ns integer not null,
    inode integer not null,
    offset integer not null,
    generation integer not null,
    head blob not null,
    state blob not null,
    primary key (origin_id, part)
) strict, without rowid;

create table unreadable (
    origin_id integer not null references origin (id),
    part text not null,
    offset integer not null,
    reason text not null,
    seen_at integer not null,
    primary key (origin_id, part, offset)
) strict, without rowid;

-- The tape: redacted original records, compressed, in parts as the session grew. `state` is what
-- the reader remembered before this part, so that each part can be derived again by itself.
create table tape_part (
    id integer primary key,
    session_id integer not null,
    origin_id integer not null references origin (id),
    part text not null,
    generation integer not null,
    offset integer not null,
    modified_ns integer not null,
    recorded_at integer not null,
    state blob not null,
    raw_bytes integer not null,
    records blob not null
) strict;
create unique index tape_part_by_place on tape_part (origin_id, part, generation, offset);
create index tape_part_by_session on tape_part (session_id);

-- Prices once looked up, so that a small import need not load the price library; null where the
-- lists of that version know none.
create table price (
    model text not null,
    provider text not null,
    prices blob,
    list_version text not null,
    primary key (model, provider)
) strict, without rowid;

-- Sessions a person wanted gone: they are not read again, even if their files grow.
create table forgotten (
    session_id integer primary key
) strict;
