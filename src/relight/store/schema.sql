-- Schema 61, written by `./dev docs` from the migrations; do not edit.
CREATE TABLE meta (
    -- Facts about the store itself: the time zone of its days, the key that redaction hashes with,
    -- the weights of the score if they were fitted here, and the number of missed records.
    key text primary key,
    value text not null
) strict, without rowid;
CREATE TABLE origin (
    -- A file or a database that an agent writes.
    id integer primary key,
    source text not null,
    path text not null
) strict;
CREATE UNIQUE INDEX origin_by_path on origin (source, path);
CREATE TABLE file_mark (
    -- The read mark of each part of an origin. `part` is '' for a file, and a session's id inside
    -- a database. `position` is the byte, or the row of a database, that the next read begins at.
    -- `generation` grows by one when a file was rewritten instead of extended, which `head`, a
    -- hash of the first and last bytes read, shows. `state` is what the reader needs to continue.
    origin_id integer not null references origin (id),
    part text not null,
    size integer not null,
    modified_ns integer not null,
    inode integer not null,
    position integer not null,
    generation integer not null,
    head blob not null,
    state blob not null,
    primary key (origin_id, part)
) strict, without rowid;
CREATE TABLE unreadable (
    -- Lines that could not be read, with the byte that each begins at. A row goes when a later
    -- read of the same place succeeds.
    origin_id integer not null references origin (id),
    part text not null,
    position integer not null,
    reason text not null,
    seen_at integer not null,
    primary key (origin_id, part, position)
) strict, without rowid;
CREATE TABLE tape_part (
    -- The tape: redacted original records, compressed, one part for each stretch that was read.
    -- `state` is the reader's state before this part, so that each part can be derived again by
    -- itself. A part is identified by its origin, part, generation and position.
    id integer primary key,
    session_id integer not null,
    origin_id integer not null references origin (id),
    part text not null,
    generation integer not null,
    position integer not null,
    modified_ns integer not null,
    recorded_at integer not null,
    state blob not null,
    -- the size of the records before compression
    raw_bytes integer not null,
    records blob not null,
    machine_id integer
, is_figures integer not null default 0) strict;
CREATE UNIQUE INDEX tape_part_by_position on tape_part (origin_id, part, generation, position);
CREATE INDEX tape_part_by_session on tape_part (session_id);
CREATE TABLE session (
    -- One conversation of an agent, or one sub-agent's part of it. `key` is the source's id.
    -- `root_id` is the session at the top of the tree of sub-agents: its own id if it has no
    -- parent, or if it is a fork. `parent_kind` is subagent, fork or continuation.
    place integer primary key,
    id integer not null unique,
    source text not null,
    key text not null,
    parent_id integer,
    parent_kind text,
    root_id integer not null,
    project text,
    title text,
    model text,
    version text,
    started_at integer,
    ended_at integer,
    -- the last kind of record (answer, prompt, call, …), from which the outcome is judged
    ending text,
    -- the time of the last prompt: tests that passed before it prove nothing about it
    prompted_at integer,
    answer text,
    -- the outcome that the source itself recorded
    told_outcome text,
    -- the error of a scheduled job's script that failed before the agent began
    script_error text,
    -- success, failure or unknown, with the reasons as a JSON list
    outcome text,
    outcome_evidence text,
    task_type text,
    category text,
    score real,
    -- 1 after its tape was pruned: the session cannot be derived again
    is_frozen integer not null default 0,
    machine_id integer
, forked_at integer, points_to text, branch text) strict;
CREATE UNIQUE INDEX session_by_key on session (source, key);
CREATE INDEX session_by_root on session (root_id);
CREATE INDEX session_by_start on session (started_at);
CREATE INDEX session_by_own_key on session (key);
CREATE TABLE turn (
    -- One model call, or the rest of a running total that no single call explains (`total_id`).
    -- `calls` is the number of answered calls: 0 for a failed one. Token counts are null where
    -- the record has none. `role` is null for the conversation itself.
    place integer primary key,
    id integer not null unique,
    session_id integer not null,
    at integer,
    day text,
    model text,
    provider text,
    role text,
    calls integer not null,
    input_tokens integer,
    cache_read_tokens integer,
    cache_write_tokens integer,
    -- the part of cache_write_tokens that is cached for an hour
    cache_write_1h_tokens integer,
    output_tokens integer,
    -- the part of output_tokens that is reasoning
    reasoning_tokens integer,
    -- final, partial (the record was cut short), reconciled (corrected by a running total) or
    -- unanswered (the call that the session was cut off in)
    usage_status text not null,
    cost_nanos integer,
    -- reported, estimated, included (in a plan; cost_nanos is the list price) or unknown
    cost_status text not null,
    cost_source text,
    duration_ms integer,
    first_token_ms integer,
    failure text,
    failure_text text,
    total_id integer,
    machine_id integer
, branch text, request integer) strict;
CREATE INDEX turn_by_session on turn (session_id, at);
CREATE INDEX turn_failed on turn (session_id, at) where failure is not null;
CREATE TABLE shared_turn (
    -- A turn that a fork copied. It counts for the session that owns it, and is also listed in
    -- the sessions named here.
    session_id integer not null,
    turn_id integer not null,
    primary key (session_id, turn_id)
) strict, without rowid;
CREATE TABLE tool_call (
    -- One call of a tool with its verdict. `fingerprint` is equal for the same tool with the same
    -- arguments. `name` is a hash of the agent's id of the call where that is not the row's key:
    -- logs beside the record know a call by nothing else. Some servers reuse ids, so time decides.
    place integer primary key,
    id integer not null unique,
    session_id integer not null,
    turn_id integer,
    at integer,
    day text,
    finished_at integer,
    tool text not null,
    fingerprint integer not null,
    arguments_bytes integer,
    result_bytes integer,
    exit_code integer,
    duration_ms integer,
    -- the verdict: ok, error, unknown, …; with the kind of failure, the reason and the quote
    label text,
    kind text,
    reason text,
    evidence text,
    -- passed or failed if the call ran tests, whatever its exit code
    tests text,
    -- the kind of work in a few words (see derive/scores.py), from which sessions are scored
    work text,
    name integer,
    machine_id integer
) strict;
CREATE INDEX tool_call_by_session on tool_call (session_id, at);
CREATE INDEX tool_call_tested on tool_call (session_id, at) where tests is not null;
CREATE INDEX tool_call_by_turn on tool_call (turn_id);
CREATE TABLE control_total (
    -- A client's running total for a session. What it shows beyond the known turns becomes one
    -- residual turn.
    id integer primary key,
    session_id integer not null,
    -- 1 if sub-agents are included
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
CREATE INDEX control_total_by_session on control_total (session_id);
CREATE TABLE call_latency (
    -- The duration of single model calls, from a log beside the session's record.
    id integer primary key,
    session_id integer not null,
    model text,
    latency_ms integer not null
) strict;
CREATE INDEX call_latency_by_session on call_latency (session_id);
CREATE TABLE call_timing (
    -- The duration of tool calls, from a log beside the session's record. `at` is the end: the
    -- call is the one with this name, or else of this tool, whose result came at that time.
    id integer primary key,
    session_id integer not null,
    tool text not null,
    at integer not null,
    duration_ms integer not null,
    name integer
, report_id integer) strict;
CREATE INDEX call_timing_by_session on call_timing (session_id);
CREATE TABLE session_words (
    -- Counts of what was said in one stretch of records, so that a session is scored without
    -- reading its tape. A stretch that is read again replaces its row.
    session_id integer not null,
    origin_id integer not null,
    part text not null,
    position integer not null,
    messages integer not null,
    user_messages integer not null,
    corrections integer not null,
    -- 1 if the first user message of the stretch reads as a correction: the first one of a whole
    -- session is the task and does not count
    is_first_correction integer not null,
    malformed integer not null,
    give_ups integer not null, last_words text,
    primary key (session_id, origin_id, part, position)
) strict, without rowid;
CREATE TABLE skill_entry (
    -- How skills entered sessions, according to the records. A row without `entry` means that
    -- the log itself attributes the turn to the skill.
    place integer primary key,
    id integer not null unique,
    session_id integer not null,
    skill_name text not null,
    -- cron, tool, slash, preload or auto
    entry text,
    at integer,
    skill_version text,
    -- the turn that loaded the skill, or that was spent on it
    turn_id integer
) strict;
CREATE INDEX skill_entry_by_session on skill_entry (session_id);
CREATE TABLE price (
    -- Prices looked up before, so that a small import need not load the price lists. `prices` is
    -- null if the lists of that version have none.
    model text not null,
    provider text not null,
    prices blob,
    list_version text not null,
    primary key (model, provider)
) strict, without rowid;
CREATE TABLE session_day (
    -- One row for each session, day, model and provider. `wall_ms` is in the row of the first
    -- turn of a root session, and 0 elsewhere.
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
    -- what a plan included, at list price
    included_nanos integer not null,
    tool_calls integer not null,
    tool_failures integer not null,
    wall_ms integer not null,
    machine_id integer
, branch text, outcome text, is_alone integer not null default 1, unknown integer generated always as (
        case when project is null then 1 else 0 end +
        case when model is null then 2 else 0 end +
        case when provider is null then 4 else 0 end +
        case when machine_id is null then 8 else 0 end +
        case when input_tokens is null then 16 else 0 end +
        case when cache_read_tokens is null then 32 else 0 end +
        case when cache_write_tokens is null then 64 else 0 end +
        case when cache_write_1h_tokens is null then 128 else 0 end +
        case when output_tokens is null then 256 else 0 end +
        case when reasoning_tokens is null then 512 else 0 end
    ) virtual) strict;
CREATE INDEX session_day_by_session on session_day (session_id);
CREATE INDEX session_day_by_root on session_day (root_id);
CREATE TABLE call_day (
    -- One row for each session, day, model, tool and kind of failure. Failed model calls have no
    -- tool.
    session_id integer not null,
    root_id integer not null,
    day text not null,
    source text not null,
    project text,
    model text,
    provider text,
    tool text,
    kind text,
    tool_calls integer not null,
    tool_failures integer not null,
    failed_turns integer not null,
    last_at integer,
    machine_id integer
, outcome text, is_spread integer not null default 0) strict;
CREATE INDEX call_day_by_session on call_day (session_id);
CREATE TABLE listing (
    -- One narrow row for each session that reports count, with its sub-agents' figures, so that
    -- lists are searched, sorted and paged without adding up all rows. Triggers maintain it: many
    -- functions write the roll-up, and none of them can forget it.
    root_id integer primary key,
    -- 0 if the start is unknown, so that every row has a place in the order
    began_at integer not null,
    source text not null,
    project text,
    -- the text that a search looks through
    words text not null,
    outcome text,
    category text,
    score real,
    -- the number of session_day rows that it is the sum of
    parts integer not null,
    turns integer not null,
    unpriced_turns integer not null,
    tokens integer not null,
    cost_nanos integer not null,
    included_nanos integer not null,
    tool_calls integer not null,
    tool_failures integer not null,
    wall_ms integer not null,
    machine_id integer
) strict;
CREATE INDEX listing_by_cost on listing (cost_nanos);
CREATE INDEX listing_by_duration on listing (wall_ms);
CREATE INDEX listing_by_turns on listing (turns);
CREATE INDEX listing_by_tokens on listing (tokens);
CREATE INDEX listing_by_failures on listing (tool_failures);
CREATE INDEX listing_empty on listing (root_id) where parts = 0;
CREATE TRIGGER session_day_added after insert on session_day begin
    insert into listing (root_id, began_at, source, project, words, outcome, category, score,
        parts, turns, unpriced_turns, tokens, cost_nanos, included_nanos, tool_calls,
        tool_failures, wall_ms, machine_id)
    select new.root_id, coalesce(started_at, 0), new.source, project,
        coalesce(title, '') || ' ' || coalesce(project, '') || ' ' || key, outcome, category, score,
        0, 0, 0, 0, 0, 0, 0, 0, 0, machine_id
    from session where id = new.root_id
    on conflict do nothing;
    update listing set parts = parts + 1, turns = turns + new.turns,
        unpriced_turns = unpriced_turns + new.unpriced_turns,
        tokens = tokens + coalesce(new.input_tokens, 0) + coalesce(new.cache_read_tokens, 0)
            + coalesce(new.cache_write_tokens, 0) + coalesce(new.output_tokens, 0),
        cost_nanos = cost_nanos + new.cost_nanos,
        included_nanos = included_nanos + new.included_nanos,
        tool_calls = tool_calls + new.tool_calls,
        tool_failures = tool_failures + new.tool_failures, wall_ms = wall_ms + new.wall_ms
    where root_id = new.root_id;
end;
CREATE TRIGGER session_day_removed after delete on session_day begin
    -- A refresh removes a session's rows of the roll-up and inserts new ones. The listing stays
    -- meanwhile, and goes when no row is left (see derive/rollup.py) or the session goes.
    update listing set parts = parts - 1, turns = turns - old.turns,
        unpriced_turns = unpriced_turns - old.unpriced_turns,
        tokens = tokens - coalesce(old.input_tokens, 0) - coalesce(old.cache_read_tokens, 0)
            - coalesce(old.cache_write_tokens, 0) - coalesce(old.output_tokens, 0),
        cost_nanos = cost_nanos - old.cost_nanos,
        included_nanos = included_nanos - old.included_nanos,
        tool_calls = tool_calls - old.tool_calls,
        tool_failures = tool_failures - old.tool_failures, wall_ms = wall_ms - old.wall_ms
    where root_id = old.root_id;
end;
CREATE TRIGGER session_day_changed after update on session_day begin
    update listing set turns = turns + new.turns - old.turns,
        unpriced_turns = unpriced_turns + new.unpriced_turns - old.unpriced_turns,
        tokens = tokens + coalesce(new.input_tokens, 0) + coalesce(new.cache_read_tokens, 0)
            + coalesce(new.cache_write_tokens, 0) + coalesce(new.output_tokens, 0)
            - coalesce(old.input_tokens, 0) - coalesce(old.cache_read_tokens, 0)
            - coalesce(old.cache_write_tokens, 0) - coalesce(old.output_tokens, 0),
        cost_nanos = cost_nanos + new.cost_nanos - old.cost_nanos,
        included_nanos = included_nanos + new.included_nanos - old.included_nanos,
        tool_calls = tool_calls + new.tool_calls - old.tool_calls,
        tool_failures = tool_failures + new.tool_failures - old.tool_failures,
        wall_ms = wall_ms + new.wall_ms - old.wall_ms
    where root_id = new.root_id;
end;
CREATE TRIGGER session_changed after update of title, project, started_at, outcome, category, score
on session when new.title is distinct from old.title or new.project is distinct from old.project
    or new.started_at is distinct from old.started_at or new.outcome is distinct from old.outcome
    or new.category is distinct from old.category or new.score is distinct from old.score
begin
    update listing set began_at = coalesce(new.started_at, 0), project = new.project,
        words = coalesce(new.title, '') || ' ' || coalesce(new.project, '') || ' ' || new.key,
        outcome = new.outcome, category = new.category, score = new.score
    where root_id = new.id;
end;
CREATE TRIGGER session_removed after delete on session begin
    delete from listing where root_id = old.id;
end;
CREATE VIRTUAL TABLE listing_words using fts5 (
    words, content = 'listing', content_rowid = 'root_id', detail = 'none',
    tokenize = 'unicode61 remove_diacritics 2'
);
CREATE TRIGGER listing_added after insert on listing begin
    insert into listing_words (rowid, words) values (new.root_id, new.words);
end;
CREATE TRIGGER listing_removed after delete on listing begin
    insert into listing_words (listing_words, rowid, words)
    values ('delete', old.root_id, old.words);
end;
CREATE TRIGGER listing_reworded after update of words on listing when new.words <> old.words begin
    insert into listing_words (listing_words, rowid, words)
    values ('delete', old.root_id, old.words);
    insert into listing_words (rowid, words) values (new.root_id, new.words);
end;
CREATE TABLE score_due (
    -- Live sessions that have changed since they were last scored.
    session_id integer primary key
) strict;
CREATE TABLE skill_told (
    -- Facts about a use of a skill, recorded through the API; no rebuild touches them. They are
    -- apart from skill_invocations, where what a fact leaves out is derived from the session's
    -- records, so that fact and records may come in either order, and again. What a fact leaves
    -- out is null. `session_id` is `source:key` if the session is recorded here, else the id
    -- that was given.
    id integer primary key,
    session_id text not null,
    skill_name text not null,
    entry text,
    job_id text,
    skill_version text,
    invoked_at integer,
    completed_at integer,
    model text,
    provider text,
    duration_seconds real,
    input_tokens integer,
    output_tokens integer,
    cache_read_tokens integer,
    cache_write_tokens integer,
    cost_nanos integer,
    cost_status text,
    cost_source text,
    success integer,
    end_reason text,
    quality_score real,
    share real
, machine_id integer) strict;
CREATE UNIQUE INDEX skill_told_by_session
    on skill_told (session_id, skill_name, coalesce(entry, ''));
CREATE TABLE skill_invocations (
    -- One row for each session, skill and entry, with the share of the session that the skill is
    -- charged with: the shares of a session add up to its cost. The name is plural because
    -- scripts rely on it. `root_id` is the recorded session at the top of the sub-agents' tree.
    id integer primary key,
    -- `source:key` if the session is recorded here, else the id that was given
    session_id text,
    root_id integer,
    job_id text,
    skill_name text not null,
    -- the version that the skill declares, else a hash of its text
    skill_version text,
    entry text,
    invoked_at integer,
    completed_at integer,
    day text not null,
    model text,
    provider text,
    duration_seconds real,
    input_tokens integer,
    output_tokens integer,
    cache_read_tokens integer,
    cache_write_tokens integer,
    -- at list price also where a plan included it
    cost_nanos integer,
    cost_usd real generated always as (cost_nanos / cast(1e9 as real)) virtual,
    -- as in turn, or partial: some of the calls have no price, so the cost is a lower bound
    cost_status text not null default 'unknown',
    cost_source text,
    -- 1, 0, or null if unknown
    success integer,
    end_reason text,
    -- as recorded, else the score of the session: a weak hint
    quality_score real,
    share real not null default 1.0,
    -- 1 if a fact of skill_told is in the row
    is_told integer not null default 1,
    -- the rest of the charge, so that a report by skill adds up like any other
    turns integer not null default 1,
    partial_turns integer not null default 0,
    unpriced_turns integer not null default 0,
    cache_write_1h_tokens integer,
    reasoning_tokens integer,
    included_nanos integer not null default 0,
    tool_calls integer not null default 0,
    tool_failures integer not null default 0,
    machine_id integer
) strict;
CREATE INDEX skill_invocations_by_skill on skill_invocations (skill_name, invoked_at);
CREATE INDEX skill_invocations_by_job on skill_invocations (job_id, invoked_at);
CREATE UNIQUE INDEX skill_invocations_by_session
    on skill_invocations (session_id, skill_name, coalesce(entry, ''));
CREATE TABLE skill_charge (
    -- The charge by the session's records, where a fact says otherwise: a report adds up what
    -- sessions spent. `id` is the use in skill_invocations.
    id integer primary key,
    root_id integer not null,
    turns integer not null,
    partial_turns integer not null,
    unpriced_turns integer not null,
    input_tokens integer,
    cache_read_tokens integer,
    cache_write_tokens integer,
    cache_write_1h_tokens integer,
    output_tokens integer,
    reasoning_tokens integer,
    cost_nanos integer,
    included_nanos integer not null,
    tool_calls integer not null,
    tool_failures integer not null,
    duration_seconds real
) strict;
CREATE INDEX skill_charge_by_root on skill_charge (root_id);
CREATE VIEW skill_stats_daily as
-- A cost of which only a part is known is in sums, where it is a lower bound, and in no mean.
select skill_name, model, provider, day,
    count(*) as invocation_count,
    sum(case when success = 1 then 1 else 0 end) as success_count,
    sum(case when success = 0 then 1 else 0 end) as failure_count,
    sum(case when success is null then 1 else 0 end) as unknown_count,
    avg(duration_seconds) as avg_duration_s,
    sum(cost_nanos) / 1e9 as total_cost_usd,
    avg(case when cost_status <> 'partial' then cost_nanos end) / 1e9 as avg_cost_usd,
    sum(case when cost_nanos is null or cost_status = 'partial' then 1 else 0 end)
        as unpriced_count,
    sum(input_tokens) as total_input_tokens,
    sum(output_tokens) as total_output_tokens,
    avg(quality_score) as avg_quality_score,
    max(invoked_at) as last_invoked_at
from skill_invocations
group by skill_name, model, provider, day;
CREATE TABLE label (
    -- A person's label of a session's outcome, which overrides all other evidence.
    session_id integer primary key,
    outcome text not null,
    why text,
    labelled_at integer not null
) strict;
CREATE TABLE forgotten (
    -- Sessions that a person deleted for good. They are not read again, even if their files grow.
    session_id integer primary key
) strict;
CREATE TABLE job (
    -- A scheduled job. Relight's jobs have the source 'relight' and are keyed by their name;
    -- `definition` is a JSON object with everything that a person wrote. `state` is scheduled,
    -- paused, done or removed; a removed job keeps its history.
    id integer primary key,
    source text not null,
    key text not null,
    name text not null,
    schedule text,
    prompt text,
    skills text,
    model text,
    provider text,
    script text,
    state text,
    created_at integer,
    next_run_at integer,
    definition text,
    -- the name that people use: with the source before it for other schedulers' jobs
    full_name text
        generated always as (case source when 'relight' then key else source || ':' || key end)
        virtual
, machine_id integer, place text) strict;
CREATE INDEX job_due on job (next_run_at) where source = 'relight' and state = 'scheduled';
CREATE TABLE run (
    -- One run of a job. `status` and `error` are the scheduler's. The columns from `attempts` on
    -- are for Relight's runs only.
    id integer primary key,
    source text not null,
    key text not null,
    job_id integer not null,
    -- the session of the last attempt
    session_id integer,
    status text not null,
    error text,
    scheduled_for integer,
    started_at integer,
    finished_at integer,
    outcome text,
    outcome_evidence text,
    attempts integer,
    note text,
    -- the worker that runs it, and the end of its lease; a dead worker's run is never repeated
    holder text,
    lease_until integer,
    model text,
    provider text,
    -- of all attempts; null if only the session has them
    cost_nanos integer,
    input_tokens integer,
    cache_read_tokens integer,
    cache_write_tokens integer,
    output_tokens integer,
    -- a file below the home folder
    answer_file text,
    -- JSON: where the answer was sent, and warnings that stopped nothing
    delivery text,
    warnings text
, failure_kind text, retry_at integer, machine_id integer) strict;
CREATE INDEX run_by_job on run (job_id, started_at);
CREATE INDEX run_by_session on run (session_id);
CREATE INDEX run_by_start on run (started_at);
CREATE UNIQUE INDEX run_by_slot on run (job_id, scheduled_for)
    where source = 'relight' and scheduled_for is not null;
CREATE INDEX run_open on run (job_id) where source = 'relight' and status in ('claimed', 'running');
CREATE INDEX run_to_join on run (session_id) where session_id is null and source <> 'relight';
CREATE INDEX run_to_judge on run (session_id) where session_id is not null and outcome is null;
CREATE TABLE run_attempt (
    -- The sessions of a run's earlier attempts.
    session_id integer primary key,
    run_id integer not null
) strict;
CREATE TABLE template (
    -- A template. `retired_at` is null while it is live; a retired one stays, with the reason, and
    -- can be restored. `proposed_at` is set only for a candidate, which an import found and which
    -- is not used until a person accepts it.
    id integer primary key,
    name text not null unique,
    project text,
    category text not null,
    created_at integer not null,
    retired_at integer,
    retired_why text,
    proposed_at integer
) strict;
CREATE INDEX template_by_place on template (project, category);
CREATE TABLE template_version (
    -- The content of a template, which never changes in place: a change is a new version.
    template_id integer not null,
    version integer not null,
    description text not null,
    tags text not null,
    task_type text not null,
    -- the words of the original task, which a new task is compared with
    task text not null,
    tools text not null,
    -- words of what was done, by which templates are found to agree
    actions text not null,
    seed text not null,
    tokens integer not null,
    content_hash text not null,
    score real,
    outcome text not null,
    evidence text not null,
    -- the rules that it failed when a person accepted it all the same
    overruled text not null,
    -- the number of redactions by rule
    redactions text not null,
    -- the session it was made from, as `source:key`, or as its maker named it
    source_session text,
    -- where a foreign template came from
    provenance text,
    created_at integer not null, words text,
    primary key (template_id, version)
) strict, without rowid;
CREATE TABLE template_word (
    -- The words of live templates, weighted by rarity; each template's weights are a vector of
    -- length one. A cache, rebuilt from the versions, so that a choice among thousands reads only
    -- the words of the task.
    word text not null,
    template_id integer not null,
    weight real not null,
    primary key (word, template_id)
) strict, without rowid;
CREATE INDEX template_word_by_template on template_word (template_id, word, weight);
CREATE TABLE template_rarity (
    -- The rarity of each word, and the number of templates that have it.
    word text primary key,
    rarity real not null,
    holding integer not null
) strict, without rowid;
CREATE TABLE candidate_due (
    -- Sessions that qualify for a candidate, but were still going on at the last look.
    session_id integer primary key
) strict;
CREATE TABLE provision (
    -- One decision to start a session warm or, held out, cold, made before its first model call.
    -- A cold one keeps the template that it would have had: only so are the arms comparable.
    -- `session_key` is the session's key, or the provision's id if no session was named.
    id text primary key,
    session_key text not null unique,
    source text,
    arm text not null,
    template_id integer,
    version integer,
    similarity real,
    reason text not null,
    project text,
    category text,
    tokens integer,
    created_at integer not null,
    -- set if an experiment dealt it by its tasks, not by chance: no other count has it
    experiment_id integer
, hold_out real, lessons text, has_lessons integer, lessons_hold_out real) strict, without rowid;
CREATE INDEX provision_by_template on provision (template_id, version);
CREATE TABLE experiment (
    -- `definition` is a JSON object with everything that a person asked for. `status` is running,
    -- stopped or done, with the reason in `note`. `stop` is 1 to stop after the current run, and
    -- 2 to stop at once.
    id integer primary key,
    name text not null unique,
    definition text not null,
    status text not null,
    note text,
    -- the process that runs it, and the end of its lease
    holder text,
    lease_until integer,
    stop integer not null default 0,
    created_at integer not null,
    ended_at integer
) strict;
CREATE TABLE experiment_run (
    -- One task in one arm, recorded before its work begins. A finished one is never repeated. An
    -- interrupted one begins again, and keeps the sessions that it had before.
    experiment_id integer not null,
    task text not null,
    round integer not null,
    arm text not null,
    -- running, done, interrupted or skipped
    status text not null,
    attempts integer not null,
    -- as `source:key`: the last of `sessions`
    session text,
    sessions text not null,
    outcome text,
    evidence text,
    -- the template that it started with
    template text,
    similarity real,
    cost_nanos integer,
    tokens integer,
    duration_ms integer,
    started_at integer not null,
    finished_at integer,
    primary key (experiment_id, task, round, arm)
) strict, without rowid;
CREATE INDEX shared_turn_by_turn on shared_turn (turn_id);
CREATE INDEX session_by_parent on session (parent_id) where parent_id is not null;
CREATE TABLE warm_plan (
    id integer primary key,
    -- success, early_failures or both
    measure text not null,
    -- the planned gain in the success rate, and the planned fall of the share of early failures
    effect real not null,
    early_effect real not null,
    -- the share of wrong verdicts that is accepted if warm starts have no effect
    error real not null,
    begun_at integer not null
, cause_effect real not null default 0.3) strict;
CREATE INDEX run_failed on run (id) where outcome = 'failure';
CREATE INDEX run_attempt_by_run on run_attempt (run_id);
CREATE TABLE model_alias (
    model text primary key,
    name text not null
) strict, without rowid;
CREATE TABLE set_aside (
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
CREATE VIRTUAL TABLE search_words using fts5 (
    words, path, tool, content = '', columnsize = 0,
    tokenize = 'unicode61 remove_diacritics 2'
);
insert into search_words (search_words, rank) values ('automerge', 0);
insert into search_words (search_words, rank) values ('crisismerge', 64);
insert into search_words (search_words, rank) values ('hashsize', 16777216);
CREATE TABLE search_part (
    -- The entries of one session in one part of the tape. The number of an entry in search_words is
    -- place * 256 + its number in this part * 4 + its kind. A part of the tape without texts has
    -- a row too.
    place integer primary key,
    tape_part_id integer not null,
    session_id integer not null,
    texts integer not null,
    -- a hash of the texts, by which a text that was derived again is known to be the same
    checksum integer not null
) strict;
CREATE INDEX search_part_by_tape on search_part (tape_part_id);
CREATE INDEX session_by_title on session (title, project);
CREATE TABLE notice (
    -- One row for each notification, so that none is sent twice. `kind` and `key` name its cause.
    kind text not null,
    key text not null,
    -- when its cause was
    at integer not null,
    -- the JSON to be sent; null once it is sent or given up
    body text,
    tries integer not null,
    -- null once it is sent or given up. A try moves it before it begins: if the process is killed
    -- in it, another one tries again then
    next_try_at integer,
    sent_at integer,
    -- why the last try failed
    error text,
    primary key (kind, key)
) strict, without rowid;
CREATE INDEX notice_due on notice (next_try_at) where next_try_at is not null;
CREATE TABLE limit_report (
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
CREATE INDEX limit_report_by_end on limit_report (source, kind, ends_at);
CREATE TABLE compaction (
    -- The moments at which an agent replaced the conversation so far by a summary.
    session_id integer not null,
    at integer not null,
    primary key (session_id, at)
) strict, without rowid;
CREATE TABLE cache_rebuild (
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
CREATE INDEX cache_rebuild_by_session on cache_rebuild (session_id);
CREATE TABLE file_edit (
    -- The files that a call changes, with the lines that it adds and removes. They belong to the
    -- call: its verdict says whether the edit was made, its turn what it cost.
    call_id integer not null,
    -- as the call names it, also relative to the session's folder
    path text not null,
    lines_added integer not null,
    lines_removed integer not null,
    primary key (call_id, path)
) strict, without rowid;
CREATE INDEX file_edit_by_path on file_edit (path);
CREATE TABLE git_commit (
    -- The commits that a call made. `hash` is as git printed it, '' if it printed none.
    call_id integer not null,
    hash text not null,
    branch text,
    primary key (call_id, hash)
) strict, without rowid;
CREATE INDEX git_commit_by_hash on git_commit (hash);
CREATE TRIGGER tool_call_deleted after delete on tool_call begin
    delete from file_edit where call_id = old.id;
    delete from git_commit where call_id = old.id;
end;
CREATE INDEX session_by_end on session (ended_at);
CREATE TABLE budget (
    -- What may be spent in each day, week or month. `scope` is `all`, or `project:…`, `source:…`
    -- or `job:…` with the name after it.
    scope text not null,
    period text not null,
    limit_nanos integer not null,
    -- 1 if agents are stopped when it is used up
    stops integer not null,
    primary key (scope, period)
) strict, without rowid;
CREATE INDEX turn_adviser on turn (session_id) where role = 'reference';
CREATE TABLE call_report (
    -- A model call as telemetry reports it, of a session whose agent writes its own records. It
    -- gives the turn of that call what the record lacks; without such a turn it is one itself.
    id integer primary key,
    session_id integer not null,
    request integer,
    at integer,
    model text,
    provider text,
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
    failure_text text
) strict;
CREATE INDEX call_report_by_session on call_report (session_id);
CREATE TABLE push_due (
    -- What was not acknowledged yet by the server that this machine has joined. `kind` is part (of
    -- the tape), session (its outcome has changed) or forget (its id on the server). Triggers fill
    -- it: a mark in the order of ids would skip a part whose id was used before.
    kind text not null,
    id integer not null,
    primary key (kind, id)
) strict, without rowid;
CREATE TABLE person (
    -- People whose machines push here.
    id integer primary key,
    name text not null unique,
    created_at integer not null
) strict;
CREATE TABLE token (
    -- Tokens of people. Only a hash is stored; `scopes` are words: push, read, admin.
    id integer primary key,
    person_id integer not null references person (id),
    digest text not null unique,
    scopes text not null,
    created_at integer not null,
    used_at integer,
    revoked_at integer
) strict;
CREATE TABLE machine (
    -- Machines that push here. `id` is a hash of the machine's own store id, so that two containers
    -- of one name stay two. Ids that are unique on one machine only end in `@` and the `key`.
    id integer primary key,
    key text not null unique,
    name text not null,
    person_id integer not null references person (id),
    -- figures or tapes
    share text not null,
    joined_at integer not null,
    pushed_at integer
, push_mark text, copied_from integer, labels text not null default '') strict;
CREATE TABLE machine_session (
    -- The machines that a session was pushed from; the first of them has it in reports.
    session_id integer not null,
    machine_id integer not null references machine (id),
    first_at integer not null,
    primary key (session_id, machine_id)
) strict, without rowid;
CREATE INDEX machine_session_by_machine on machine_session (machine_id);
CREATE TABLE told_outcome (
    -- The outcome and the kind of a session as the machine that recorded it judged them. They count
    -- for a session without words here, and everywhere if a person labelled it there.
    session_id integer not null,
    machine_id integer not null references machine (id),
    outcome text,
    points_to text,
    task_type text,
    category text,
    score real,
    is_label integer not null,
    told_at integer not null,
    primary key (session_id, machine_id)
) strict, without rowid;
CREATE TABLE derive_due (
    -- Parts of the tape that were pushed, and whose rows are not derived yet. With `reason` it
    -- cannot be derived.
    tape_part_id integer primary key,
    received_at integer not null,
    reason text
) strict;
CREATE INDEX tape_part_by_machine on tape_part (machine_id) where machine_id is not null;
CREATE TRIGGER tape_part_added after insert on tape_part
when new.machine_id is null and exists (select 1 from meta where key = 'team') begin
    insert into push_due (kind, id) values ('part', new.id) on conflict do nothing;
end;
CREATE TRIGGER tape_part_grown after update of raw_bytes on tape_part
-- the parts of a live session are joined into one when it ends
when new.machine_id is null and exists (select 1 from meta where key = 'team') begin
    insert into push_due (kind, id) values ('part', new.id) on conflict do nothing;
end;
CREATE TRIGGER tape_part_removed after delete on tape_part begin
    delete from push_due where kind = 'part' and id = old.id;
    delete from derive_due where tape_part_id = old.id;
end;
CREATE TRIGGER session_judged after update of outcome, points_to, category, score on session
when new.machine_id is null and (new.outcome is distinct from old.outcome
    or new.points_to is distinct from old.points_to or new.category is distinct from old.category
    or new.score is distinct from old.score) and exists (select 1 from meta where key = 'team')
begin
    insert into push_due (kind, id) values ('session', new.id) on conflict do nothing;
end;
CREATE TRIGGER label_added after insert on label
when exists (select 1 from meta where key = 'team') begin
    insert into push_due (kind, id) values ('session', new.session_id) on conflict do nothing;
end;
CREATE TRIGGER label_changed after update on label
when exists (select 1 from meta where key = 'team') begin
    insert into push_due (kind, id) values ('session', new.session_id) on conflict do nothing;
end;
CREATE TRIGGER label_removed after delete on label
when exists (select 1 from meta where key = 'team') begin
    insert into push_due (kind, id) values ('session', old.session_id) on conflict do nothing;
end;
CREATE TABLE forgotten_by (
    -- Sessions that a person forgot while another person's machine had pushed them too: what this
    -- person's machines push of them is refused.
    session_id integer not null,
    person_id integer not null references person (id),
    primary key (session_id, person_id)
) strict, without rowid;
CREATE TRIGGER run_added after insert on run
when new.machine_id is null and new.status not in ('claimed', 'running')
    and exists (select 1 from meta where key = 'team') begin
    insert into push_due (kind, id) values ('run', new.id) on conflict do nothing;
end;
CREATE TRIGGER run_ended after update of status, outcome, session_id, cost_nanos, error on run
when new.machine_id is null and new.status not in ('claimed', 'running')
    and exists (select 1 from meta where key = 'team') begin
    insert into push_due (kind, id) values ('run', new.id) on conflict do nothing;
end;
CREATE TRIGGER run_removed after delete on run begin
    delete from push_due where kind = 'run' and id = old.id;
end;
CREATE TRIGGER skill_told_added after insert on skill_told
when new.machine_id is null and exists (select 1 from meta where key = 'team') begin
    insert into push_due (kind, id) values ('use', new.id) on conflict do nothing;
end;
CREATE TRIGGER skill_told_removed after delete on skill_told begin
    delete from push_due where kind = 'use' and id = old.id;
end;
CREATE TABLE stumble_reading (
    session_id integer primary key,
    read_to integer not null,
    rules integer not null,
    found text
) strict;
CREATE TABLE alarm (
    id integer primary key,
    -- `job:…` or `model:…` with the name after it
    scope text not null,
    -- success or cost
    metric text not null,
    -- the likely first run of the change, and the run that showed it
    since integer not null,
    raised_at integer not null,
    -- shares of success, or median costs in dollars
    before real not null,
    after real not null,
    runs_before integer not null,
    failures_before integer not null,
    runs_after integer not null,
    failures_after integer not null,
    -- JSON: what changed at the same time
    changed text not null,
    -- when it was as before again
    ended_at integer,
    acknowledged_at integer
) strict;
CREATE UNIQUE INDEX alarm_open on alarm (scope, metric)
    where ended_at is null and acknowledged_at is null;
CREATE INDEX run_ended on run (job_id, finished_at, outcome);
CREATE TABLE remote_run (
    -- Runs of this machine whose slot it claimed at the server that it has joined. `run_id` is
    -- the run here, `server_run_id` there, and `holder` the claim's.
    run_id integer primary key,
    server_run_id integer not null,
    store_id text not null,
    holder text not null,
    -- 1 if the server has its result
    is_reported integer not null default 0
) strict;
CREATE TABLE skill_run (
    -- All uses of a skill on one model in one session are one run. `use_id` is the first of them.
    -- `project` is that of the session, null in a job. `nanos` is null unless the whole cost is
    -- known. Triggers keep the rows equal to those of skill_run_now.
    use_id integer primary key,
    skill_name text not null,
    job_id text,
    project text,
    model text,
    success integer,
    nanos integer,
    last_at integer
) strict;
CREATE VIEW skill_run_now as
select min(used.id) as use_id, used.session_id, used.skill_name, used.job_id,
    case when used.job_id is null then session.project end as project, used.model,
    min(used.success) as success,
    case when count(*) = count(case when used.cost_status <> 'partial' then used.cost_nanos end)
        then sum(used.cost_nanos) end as nanos,
    max(used.invoked_at) as last_at
from skill_invocations as used left join session on session.id = used.root_id
where used.session_id is not null
group by used.session_id, used.skill_name, used.job_id, session.project, used.model
union all
select id, session_id, skill_name, job_id, cast(null as text), model, success,
    case when cost_status <> 'partial' then cost_nanos end, invoked_at
from skill_invocations where session_id is null;
CREATE TRIGGER skill_used after insert on skill_invocations begin
    delete from skill_run where use_id in (
        select id from skill_invocations
        where session_id = new.session_id and skill_name = new.skill_name
    );
    insert into skill_run (use_id, skill_name, job_id, project, model, success, nanos, last_at)
    select use_id, skill_name, job_id, project, model, success, nanos, last_at from skill_run_now
    where session_id = new.session_id and skill_name = new.skill_name
    union all
    select use_id, skill_name, job_id, project, model, success, nanos, last_at from skill_run_now
    where session_id is null and use_id = new.id;
end;
CREATE TRIGGER skill_use_removed after delete on skill_invocations begin
    delete from skill_run where use_id = old.id or use_id in (
        select id from skill_invocations
        where session_id = old.session_id and skill_name = old.skill_name
    );
    insert into skill_run (use_id, skill_name, job_id, project, model, success, nanos, last_at)
    select use_id, skill_name, job_id, project, model, success, nanos, last_at from skill_run_now
    where session_id = old.session_id and skill_name = old.skill_name;
end;
CREATE TRIGGER skill_use_changed after update on skill_invocations begin
    delete from skill_run where use_id = old.id or use_id in (
        select id from skill_invocations
        where session_id in (old.session_id, new.session_id)
            and skill_name in (old.skill_name, new.skill_name)
    );
    insert into skill_run (use_id, skill_name, job_id, project, model, success, nanos, last_at)
    select use_id, skill_name, job_id, project, model, success, nanos, last_at from skill_run_now
    where session_id in (old.session_id, new.session_id)
        and skill_name in (old.skill_name, new.skill_name)
    union all
    select use_id, skill_name, job_id, project, model, success, nanos, last_at from skill_run_now
    where session_id is null and use_id = new.id;
end;
CREATE TRIGGER skill_run_moved after update of project on session
when new.project is distinct from old.project begin
    update skill_run set project = new.project where job_id is null and use_id in (
        select id from skill_invocations
        where session_id = new.source || ':' || new.key and root_id = new.id
    );
end;
CREATE TABLE canary (
    id integer primary key,
    -- the job's full name
    job text not null,
    -- the model on trial, and the one in use
    model text not null,
    against text,
    -- JSON: the settings that make the job run on the one or the other
    change text not null,
    before text not null,
    margin real not null,
    -- the share of slots that the model on trial gets at first, and now
    first_share real not null,
    share real not null,
    -- what its runs may cost in all; null is no limit
    budget_nanos integer,
    is_auto integer not null,
    -- slots are dealt by a hash of this and their run's key
    seed text not null,
    started_at integer not null,
    -- running, promoted, stopped, rolled_back, replaced
    state text not null,
    -- good enough or worse, since the look that showed it
    verdict text,
    verdict_at integer,
    promoted_at integer,
    ended_at integer,
    -- why it ended
    reason text,
    -- ended runs of the job at the last look
    seen integer not null default 0,
    -- JSON: past tasks that were repeated
    replay text
) strict;
CREATE UNIQUE INDEX canary_open on canary (job) where state in ('running', 'promoted');
CREATE TABLE canary_deal (
    -- Written before its run begins. `run_id` is null until another scheduler's run is known.
    id integer primary key,
    canary_id integer not null,
    dealt_at integer not null,
    is_candidate integer not null,
    run_id integer
) strict;
CREATE UNIQUE INDEX canary_deal_by_run on canary_deal (run_id) where run_id is not null;
CREATE INDEX canary_deal_by_canary on canary_deal (canary_id, dealt_at);
CREATE TABLE job_switch (
    -- Every change of a job's model. `made_by` is a person's name, or auto.
    id integer primary key,
    job text not null,
    at integer not null,
    from_model text,
    to_model text,
    made_by text not null,
    reason text not null,
    canary_id integer
) strict;
CREATE INDEX job_switch_by_job on job_switch (job, at);
CREATE TABLE adviser_deal (
    -- the key of one of Relight's own sessions
    session_key text not null,
    adviser text not null,
    preset text not null,
    dealt_at integer not null,
    -- the share of sessions that advisers were muted in
    share real not null,
    is_muted integer not null,
    primary key (session_key, adviser)
) strict;
CREATE TABLE member (
    -- A person sees the sessions of their own machines, and those of these projects. `project` is a
    -- folder, the last part of one, or `*` for everything. `role` is reader, or lead, who may also
    -- label its sessions.
    person_id integer not null references person (id),
    project text not null,
    role text not null,
    granted_at integer not null,
    primary key (person_id, project)
) strict, without rowid;
CREATE TABLE tape_read (
    -- The people who read a session's tape on the server, once for each hour in which they did.
    person_id integer not null references person (id),
    session_id integer not null,
    -- in hours since 1970
    hour integer not null,
    read_at integer not null,
    primary key (person_id, session_id, hour)
) strict, without rowid;
CREATE INDEX tape_read_by_session on tape_read (session_id);
CREATE INDEX listing_by_project on listing (project);
CREATE TABLE session_hour (
    session_id integer not null,
    hour integer not null,
    source text not null,
    first_at integer not null,
    turns integer not null,
    unpriced_turns integer not null,
    tokens integer not null,
    -- at list price, null if no turn has a price
    nanos integer,
    primary key (session_id, hour)
) strict, without rowid;
CREATE INDEX turn_limited on turn (at) where failure = 'usage_limit';
CREATE INDEX run_newest on run (
    job_id, (coalesce(started_at, scheduled_for)) desc, key, status, outcome, session_id, started_at
);
CREATE INDEX session_below on session (source, id) where id <> root_id;
CREATE INDEX call_day_by_day on call_day (day, root_id);
CREATE INDEX session_words_of_people on session_words (session_id, position) where user_messages > 0;
CREATE TABLE position_day (
    session_id integer not null,
    day text not null,
    -- the first place of the range
    position integer not null,
    root_id integer not null,
    source text not null,
    project text,
    machine_id integer,
    tool_calls integer not null,
    tool_failures integer not null,
    failed_turns integer not null,
    -- when a call failed last
    failed_at integer,
    primary key (session_id, day, position)
) strict, without rowid;
CREATE INDEX position_day_by_day on position_day (
    day, root_id, position, tool_calls, tool_failures, failed_turns, failed_at, source, project
);
CREATE INDEX call_day_by_tool on call_day (
    tool, day, root_id, tool_calls, tool_failures, failed_turns, outcome, project, machine_id
) where tool is not null;
CREATE INDEX call_day_failed on call_day (
    day, kind, tool, root_id, session_id, tool_calls, tool_failures, failed_turns, last_at, outcome,
    project, machine_id
) where tool_failures > 0 or failed_turns > 0;
CREATE TRIGGER session_outcome_changed after update of outcome on session
when new.outcome is distinct from old.outcome begin
    update session_day set outcome = new.outcome where root_id = new.id;
    update call_day set outcome = new.outcome
    where session_id in (select id from session where root_id = new.id);
end;
CREATE TRIGGER session_outcome_removed after delete on session begin
    update session_day set outcome = null where root_id = old.id;
    update call_day set outcome = null
    where session_id in (select id from session where root_id = old.id);
end;
CREATE INDEX session_day_by_day on session_day (
    day, model, root_id, source, project, provider, turns, partial_turns, unpriced_turns,
    input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens,
    reasoning_tokens, cost_nanos, included_nanos, tool_calls, tool_failures, wall_ms, outcome,
    is_alone, machine_id
);
CREATE INDEX session_day_shared on session_day (
    day, model, root_id, source, project, provider, outcome, machine_id
) where is_alone = 0;
CREATE TABLE usage_day (
    -- What reports add up: the sum of all rows of `session_day` with the same day, source, project,
    -- model, provider and machine, and the same columns known. Triggers keep it equal to
    -- usage_day_now.
    day text not null,
    source text not null,
    project text,
    model text,
    provider text,
    machine_id integer,
    unknown integer not null,
    -- the number of session_day rows that it is the sum of
    parts integer not null,
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
    wall_ms integer not null,
    -- the sessions that have no other row
    sessions integer not null,
    successes integer not null,
    failures integer not null,
    -- sums of all sessions whose outcome is known
    rated_turns integer not null,
    rated_unpriced_turns integer not null,
    rated_cost_nanos integer not null
) strict;
CREATE VIEW usage_day_now as
select
    day, source, project, model, provider, machine_id, unknown, count(*) as parts,
    sum(turns) as turns, sum(partial_turns) as partial_turns, sum(unpriced_turns) as unpriced_turns,
    sum(input_tokens) as input_tokens, sum(cache_read_tokens) as cache_read_tokens,
    sum(cache_write_tokens) as cache_write_tokens,
    sum(cache_write_1h_tokens) as cache_write_1h_tokens, sum(output_tokens) as output_tokens,
    sum(reasoning_tokens) as reasoning_tokens, sum(cost_nanos) as cost_nanos,
    sum(included_nanos) as included_nanos, sum(tool_calls) as tool_calls,
    sum(tool_failures) as tool_failures, sum(wall_ms) as wall_ms, sum(is_alone) as sessions,
    sum(case when outcome = 'success' then is_alone else 0 end) as successes,
    sum(case when outcome = 'failure' then is_alone else 0 end) as failures,
    sum(case when outcome in ('success', 'failure') then turns else 0 end) as rated_turns,
    sum(case when outcome in ('success', 'failure') then unpriced_turns else 0 end) as rated_unpriced_turns,
    sum(case when outcome in ('success', 'failure') then cost_nanos else 0 end) as rated_cost_nanos
from session_day
group by day, source, project, model, provider, machine_id, unknown;
CREATE UNIQUE INDEX usage_day_by_day on usage_day (
    day, source, coalesce(project, ''), coalesce(model, ''), coalesce(provider, ''),
    coalesce(machine_id, 0), unknown
);
CREATE TRIGGER usage_added after insert on session_day begin
    insert into usage_day (
        day, source, project, model, provider, machine_id, unknown, parts, turns, partial_turns,
        unpriced_turns, input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens,
        output_tokens, reasoning_tokens, cost_nanos, included_nanos, tool_calls, tool_failures,
        wall_ms, sessions, successes, failures, rated_turns, rated_unpriced_turns, rated_cost_nanos
    ) values (
        new.day, new.source, new.project, new.model, new.provider, new.machine_id, new.unknown, 1,
        new.turns, new.partial_turns, new.unpriced_turns, new.input_tokens, new.cache_read_tokens,
        new.cache_write_tokens, new.cache_write_1h_tokens, new.output_tokens, new.reasoning_tokens,
        new.cost_nanos, new.included_nanos, new.tool_calls, new.tool_failures, new.wall_ms,
        new.is_alone, case when new.outcome = 'success' then new.is_alone else 0 end,
        case when new.outcome = 'failure' then new.is_alone else 0 end,
        case when new.outcome in ('success', 'failure') then new.turns else 0 end,
        case when new.outcome in ('success', 'failure') then new.unpriced_turns else 0 end,
        case when new.outcome in ('success', 'failure') then new.cost_nanos else 0 end
    ) on conflict (
        day, source, coalesce(project, ''), coalesce(model, ''), coalesce(provider, ''),
        coalesce(machine_id, 0), unknown
    ) do update set
        parts = usage_day.parts + excluded.parts, turns = usage_day.turns + excluded.turns,
        partial_turns = usage_day.partial_turns + excluded.partial_turns,
        unpriced_turns = usage_day.unpriced_turns + excluded.unpriced_turns,
        input_tokens = usage_day.input_tokens + excluded.input_tokens,
        cache_read_tokens = usage_day.cache_read_tokens + excluded.cache_read_tokens,
        cache_write_tokens = usage_day.cache_write_tokens + excluded.cache_write_tokens,
        cache_write_1h_tokens = usage_day.cache_write_1h_tokens + excluded.cache_write_1h_tokens,
        output_tokens = usage_day.output_tokens + excluded.output_tokens,
        reasoning_tokens = usage_day.reasoning_tokens + excluded.reasoning_tokens,
        cost_nanos = usage_day.cost_nanos + excluded.cost_nanos,
        included_nanos = usage_day.included_nanos + excluded.included_nanos,
        tool_calls = usage_day.tool_calls + excluded.tool_calls,
        tool_failures = usage_day.tool_failures + excluded.tool_failures,
        wall_ms = usage_day.wall_ms + excluded.wall_ms,
        sessions = usage_day.sessions + excluded.sessions,
        successes = usage_day.successes + excluded.successes,
        failures = usage_day.failures + excluded.failures,
        rated_turns = usage_day.rated_turns + excluded.rated_turns,
        rated_unpriced_turns = usage_day.rated_unpriced_turns + excluded.rated_unpriced_turns,
        rated_cost_nanos = usage_day.rated_cost_nanos + excluded.rated_cost_nanos;
    update session_day set is_alone = 0 where root_id = new.root_id and is_alone = 1
        and (select count(*) from session_day as every where every.root_id = new.root_id) > 1;
end;
CREATE TRIGGER usage_removed after delete on session_day begin
    insert into usage_day (
        day, source, project, model, provider, machine_id, unknown, parts, turns, partial_turns,
        unpriced_turns, input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens,
        output_tokens, reasoning_tokens, cost_nanos, included_nanos, tool_calls, tool_failures,
        wall_ms, sessions, successes, failures, rated_turns, rated_unpriced_turns, rated_cost_nanos
    ) values (
        old.day, old.source, old.project, old.model, old.provider, old.machine_id, old.unknown, -1,
        -old.turns, -old.partial_turns, -old.unpriced_turns, -old.input_tokens,
        -old.cache_read_tokens, -old.cache_write_tokens, -old.cache_write_1h_tokens,
        -old.output_tokens, -old.reasoning_tokens, -old.cost_nanos, -old.included_nanos,
        -old.tool_calls, -old.tool_failures, -old.wall_ms, -old.is_alone,
        case when old.outcome = 'success' then -old.is_alone else 0 end,
        case when old.outcome = 'failure' then -old.is_alone else 0 end,
        case when old.outcome in ('success', 'failure') then -old.turns else 0 end,
        case when old.outcome in ('success', 'failure') then -old.unpriced_turns else 0 end,
        case when old.outcome in ('success', 'failure') then -old.cost_nanos else 0 end
    ) on conflict (
        day, source, coalesce(project, ''), coalesce(model, ''), coalesce(provider, ''),
        coalesce(machine_id, 0), unknown
    ) do update set
        parts = usage_day.parts + excluded.parts, turns = usage_day.turns + excluded.turns,
        partial_turns = usage_day.partial_turns + excluded.partial_turns,
        unpriced_turns = usage_day.unpriced_turns + excluded.unpriced_turns,
        input_tokens = usage_day.input_tokens + excluded.input_tokens,
        cache_read_tokens = usage_day.cache_read_tokens + excluded.cache_read_tokens,
        cache_write_tokens = usage_day.cache_write_tokens + excluded.cache_write_tokens,
        cache_write_1h_tokens = usage_day.cache_write_1h_tokens + excluded.cache_write_1h_tokens,
        output_tokens = usage_day.output_tokens + excluded.output_tokens,
        reasoning_tokens = usage_day.reasoning_tokens + excluded.reasoning_tokens,
        cost_nanos = usage_day.cost_nanos + excluded.cost_nanos,
        included_nanos = usage_day.included_nanos + excluded.included_nanos,
        tool_calls = usage_day.tool_calls + excluded.tool_calls,
        tool_failures = usage_day.tool_failures + excluded.tool_failures,
        wall_ms = usage_day.wall_ms + excluded.wall_ms,
        sessions = usage_day.sessions + excluded.sessions,
        successes = usage_day.successes + excluded.successes,
        failures = usage_day.failures + excluded.failures,
        rated_turns = usage_day.rated_turns + excluded.rated_turns,
        rated_unpriced_turns = usage_day.rated_unpriced_turns + excluded.rated_unpriced_turns,
        rated_cost_nanos = usage_day.rated_cost_nanos + excluded.rated_cost_nanos;
    delete from usage_day where parts = 0 and sessions = 0 and successes = 0 and failures = 0
        and day = old.day and source = old.source
        and coalesce(project, '') = coalesce(old.project, '')
        and coalesce(model, '') = coalesce(old.model, '')
        and coalesce(provider, '') = coalesce(old.provider, '')
        and coalesce(machine_id, 0) = coalesce(old.machine_id, 0) and unknown = old.unknown;
    update session_day set is_alone = 1 where root_id = old.root_id and is_alone = 0
        and (select count(*) from session_day as every where every.root_id = old.root_id) = 1;
end;
CREATE TRIGGER usage_changed after update on session_day begin
    insert into usage_day (
        day, source, project, model, provider, machine_id, unknown, parts, turns, partial_turns,
        unpriced_turns, input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens,
        output_tokens, reasoning_tokens, cost_nanos, included_nanos, tool_calls, tool_failures,
        wall_ms, sessions, successes, failures, rated_turns, rated_unpriced_turns, rated_cost_nanos
    ) values (
        old.day, old.source, old.project, old.model, old.provider, old.machine_id, old.unknown, -1,
        -old.turns, -old.partial_turns, -old.unpriced_turns, -old.input_tokens,
        -old.cache_read_tokens, -old.cache_write_tokens, -old.cache_write_1h_tokens,
        -old.output_tokens, -old.reasoning_tokens, -old.cost_nanos, -old.included_nanos,
        -old.tool_calls, -old.tool_failures, -old.wall_ms, -old.is_alone,
        case when old.outcome = 'success' then -old.is_alone else 0 end,
        case when old.outcome = 'failure' then -old.is_alone else 0 end,
        case when old.outcome in ('success', 'failure') then -old.turns else 0 end,
        case when old.outcome in ('success', 'failure') then -old.unpriced_turns else 0 end,
        case when old.outcome in ('success', 'failure') then -old.cost_nanos else 0 end
    ) on conflict (
        day, source, coalesce(project, ''), coalesce(model, ''), coalesce(provider, ''),
        coalesce(machine_id, 0), unknown
    ) do update set
        parts = usage_day.parts + excluded.parts, turns = usage_day.turns + excluded.turns,
        partial_turns = usage_day.partial_turns + excluded.partial_turns,
        unpriced_turns = usage_day.unpriced_turns + excluded.unpriced_turns,
        input_tokens = usage_day.input_tokens + excluded.input_tokens,
        cache_read_tokens = usage_day.cache_read_tokens + excluded.cache_read_tokens,
        cache_write_tokens = usage_day.cache_write_tokens + excluded.cache_write_tokens,
        cache_write_1h_tokens = usage_day.cache_write_1h_tokens + excluded.cache_write_1h_tokens,
        output_tokens = usage_day.output_tokens + excluded.output_tokens,
        reasoning_tokens = usage_day.reasoning_tokens + excluded.reasoning_tokens,
        cost_nanos = usage_day.cost_nanos + excluded.cost_nanos,
        included_nanos = usage_day.included_nanos + excluded.included_nanos,
        tool_calls = usage_day.tool_calls + excluded.tool_calls,
        tool_failures = usage_day.tool_failures + excluded.tool_failures,
        wall_ms = usage_day.wall_ms + excluded.wall_ms,
        sessions = usage_day.sessions + excluded.sessions,
        successes = usage_day.successes + excluded.successes,
        failures = usage_day.failures + excluded.failures,
        rated_turns = usage_day.rated_turns + excluded.rated_turns,
        rated_unpriced_turns = usage_day.rated_unpriced_turns + excluded.rated_unpriced_turns,
        rated_cost_nanos = usage_day.rated_cost_nanos + excluded.rated_cost_nanos;
    insert into usage_day (
        day, source, project, model, provider, machine_id, unknown, parts, turns, partial_turns,
        unpriced_turns, input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens,
        output_tokens, reasoning_tokens, cost_nanos, included_nanos, tool_calls, tool_failures,
        wall_ms, sessions, successes, failures, rated_turns, rated_unpriced_turns, rated_cost_nanos
    ) values (
        new.day, new.source, new.project, new.model, new.provider, new.machine_id, new.unknown, 1,
        new.turns, new.partial_turns, new.unpriced_turns, new.input_tokens, new.cache_read_tokens,
        new.cache_write_tokens, new.cache_write_1h_tokens, new.output_tokens, new.reasoning_tokens,
        new.cost_nanos, new.included_nanos, new.tool_calls, new.tool_failures, new.wall_ms,
        new.is_alone, case when new.outcome = 'success' then new.is_alone else 0 end,
        case when new.outcome = 'failure' then new.is_alone else 0 end,
        case when new.outcome in ('success', 'failure') then new.turns else 0 end,
        case when new.outcome in ('success', 'failure') then new.unpriced_turns else 0 end,
        case when new.outcome in ('success', 'failure') then new.cost_nanos else 0 end
    ) on conflict (
        day, source, coalesce(project, ''), coalesce(model, ''), coalesce(provider, ''),
        coalesce(machine_id, 0), unknown
    ) do update set
        parts = usage_day.parts + excluded.parts, turns = usage_day.turns + excluded.turns,
        partial_turns = usage_day.partial_turns + excluded.partial_turns,
        unpriced_turns = usage_day.unpriced_turns + excluded.unpriced_turns,
        input_tokens = usage_day.input_tokens + excluded.input_tokens,
        cache_read_tokens = usage_day.cache_read_tokens + excluded.cache_read_tokens,
        cache_write_tokens = usage_day.cache_write_tokens + excluded.cache_write_tokens,
        cache_write_1h_tokens = usage_day.cache_write_1h_tokens + excluded.cache_write_1h_tokens,
        output_tokens = usage_day.output_tokens + excluded.output_tokens,
        reasoning_tokens = usage_day.reasoning_tokens + excluded.reasoning_tokens,
        cost_nanos = usage_day.cost_nanos + excluded.cost_nanos,
        included_nanos = usage_day.included_nanos + excluded.included_nanos,
        tool_calls = usage_day.tool_calls + excluded.tool_calls,
        tool_failures = usage_day.tool_failures + excluded.tool_failures,
        wall_ms = usage_day.wall_ms + excluded.wall_ms,
        sessions = usage_day.sessions + excluded.sessions,
        successes = usage_day.successes + excluded.successes,
        failures = usage_day.failures + excluded.failures,
        rated_turns = usage_day.rated_turns + excluded.rated_turns,
        rated_unpriced_turns = usage_day.rated_unpriced_turns + excluded.rated_unpriced_turns,
        rated_cost_nanos = usage_day.rated_cost_nanos + excluded.rated_cost_nanos;
    delete from usage_day where parts = 0 and sessions = 0 and successes = 0 and failures = 0
        and day = old.day and source = old.source
        and coalesce(project, '') = coalesce(old.project, '')
        and coalesce(model, '') = coalesce(old.model, '')
        and coalesce(provider, '') = coalesce(old.provider, '')
        and coalesce(machine_id, 0) = coalesce(old.machine_id, 0) and unknown = old.unknown;
end;
CREATE INDEX session_by_project on session (
    project, (coalesce(machine_id, 0)), (coalesce(started_at, 0)) desc, id, root_id, ended_at,
    parent_kind, machine_id, started_at
);
CREATE TABLE tool_day (
    -- The sum of the rows of `call_day` with the same day, source, project, model, provider, machine
    -- and tool, of the sessions whose calls are all of one such day and the rest. `call_day` has
    -- the others, with `is_spread`. A row without a tool counts the sessions that called any.
    day text not null,
    source text not null,
    project text,
    model text,
    provider text,
    machine_id integer,
    tool text,
    sessions integer not null,
    successes integer not null,
    failures integer not null,
    tool_calls integer not null,
    tool_failures integer not null,
    -- sums of squares and products of the calls and failures of each session
    calls_squared integer not null,
    failed_squared integer not null,
    calls_times_failed integer not null
) strict;
CREATE INDEX tool_day_by_day on tool_day (day);
CREATE TABLE stale_day (
    -- The days whose calls have changed since tool_day was written: their calls are read one by one
    -- until the next import adds them up.
    day text primary key
) strict, without rowid;
CREATE INDEX call_day_spread on call_day (day, tool) where is_spread = 1;
CREATE TRIGGER call_day_added after insert on call_day begin
    insert into stale_day (day) values (new.day) on conflict (day) do nothing;
end;
CREATE TRIGGER call_day_removed after delete on call_day begin
    insert into stale_day (day) values (old.day) on conflict (day) do nothing;
end;
CREATE TRIGGER call_day_changed after update of root_id, day, source, project, model, provider, tool,
    machine_id, outcome, tool_calls, tool_failures on call_day
begin
    insert into stale_day (day) values (old.day) on conflict (day) do nothing;
    insert into stale_day (day) values (new.day) on conflict (day) do nothing;
end;
CREATE INDEX listing_by_start on listing (
    began_at, root_id, outcome, turns, unpriced_turns, cost_nanos
);
CREATE INDEX session_hour_by_source on session_hour (
    source, hour, first_at, turns, unpriced_turns, tokens, nanos, session_id
);
CREATE INDEX skill_run_by_skill on skill_run (
    skill_name, job_id, project, model, success, nanos, last_at, use_id
);
CREATE INDEX skill_invocations_by_day on skill_invocations (
    day, skill_name, model, provider, success, cost_nanos, cost_status, duration_seconds, invoked_at,
    root_id, job_id, turns, partial_turns, unpriced_turns, input_tokens, cache_read_tokens,
    cache_write_tokens, cache_write_1h_tokens, output_tokens, reasoning_tokens, included_nanos,
    tool_calls, tool_failures, machine_id, id
);
CREATE TABLE failure_day (
    -- Calls of one day by kind of failure and tool, by kind of work, length of the session and
    -- place in it, or by kind of work and length, as `what` says. Sessions with calls of several
    -- days are not among them.
    what text not null,
    day text not null,
    number integer not null,
    kind text,
    tool text,
    category text,
    length integer,
    position integer,
    -- the sessions with a failure
    sessions integer not null,
    tool_calls integer not null,
    tool_failures integer not null,
    failed_turns integer not null,
    -- the sessions that failed last, and when
    first_root integer,
    first_at integer,
    second_root integer,
    second_at integer,
    third_root integer,
    third_at integer,
    primary key (what, day, number)
) strict, without rowid;
CREATE TABLE failure_session (
    -- The sessions that a day's sums do not tell apart: those with calls of several days, which
    -- are in no sum, and of the others those in which a tool failed often.
    day text not null,
    session_id integer not null,
    has_days integer not null,
    primary key (day, session_id)
) strict, without rowid;
CREATE TRIGGER failure_category_changed after update of category on session
when new.category is distinct from old.category begin
    insert into stale_day (day) select distinct day from position_day
    where session_id in (select id from session where root_id = new.id)
    on conflict (day) do nothing;
end;
CREATE INDEX session_failed on session (
    (case when ended_at is not null then ended_at when started_at is not null then started_at
        else 9223372036854775807 end), id, key, started_at, ended_at
) where outcome = 'failure';
