-- The whole schema. Each later change is a separate file: 0018_what.sql, 0019_what.sql, …
--
-- Ids of sessions, turns, tool calls, totals, origins, jobs and runs are 64-bit hashes of the
-- source's ids (see ids.py), so that reading in any order, by any number of processes, gives the
-- same rows. Columns ending in `_at`, and `at`, are Unix milliseconds in UTC. `day` is a calendar
-- day in the store's time zone. `_nanos` are billionths of a dollar.
--
-- `place` is the order of arrival. As the integer primary key it is SQLite's row number under a
-- name, which costs no bytes and no time: rows are written one after another, although ids are
-- hashes, and a commit writes few pages.
--
-- `machine_id` is the machine that pushed the row; null is this machine. Turns and tool calls are
-- of their session's machine, and leave it null.

create table meta (
    -- Facts about the store itself: the time zone of its days, the key that redaction hashes with,
    -- the weights of the score if they were fitted here, and the number of missed records.
    key text primary key,
    value text not null
) strict, without rowid;


-- Where records come from, and how far they were read.

create table origin (
    -- A file or a database that an agent writes.
    id integer primary key,
    source text not null,
    path text not null
) strict;
create unique index origin_by_path on origin (source, path);

create table file_mark (
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

create table unreadable (
    -- Lines that could not be read, with the byte that each begins at. A row goes when a later
    -- read of the same place succeeds.
    origin_id integer not null references origin (id),
    part text not null,
    position integer not null,
    reason text not null,
    seen_at integer not null,
    primary key (origin_id, part, position)
) strict, without rowid;

create table tape_part (
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
) strict;
create unique index tape_part_by_position on tape_part (origin_id, part, generation, position);
create index tape_part_by_session on tape_part (session_id);


-- The index of sessions: everything here is derived from the tape and can be derived again.

create table session (
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
) strict;
create unique index session_by_key on session (source, key);
create index session_by_root on session (root_id);
create index session_by_start on session (started_at);
-- a provision knows the session's key, and not always its source
create index session_by_own_key on session (key);

create table turn (
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
) strict;
create index turn_by_session on turn (session_id, at);
create index turn_failed on turn (session_id, at) where failure is not null;

create table shared_turn (
    -- A turn that a fork copied. It counts for the session that owns it, and is also listed in
    -- the sessions named here.
    session_id integer not null,
    turn_id integer not null,
    primary key (session_id, turn_id)
) strict, without rowid;

create table tool_call (
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
create index tool_call_by_session on tool_call (session_id, at);
create index tool_call_tested on tool_call (session_id, at) where tests is not null;
-- the calls of a turn that a fork copied
create index tool_call_by_turn on tool_call (turn_id);

create table control_total (
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
create index control_total_by_session on control_total (session_id);

create table call_latency (
    -- The duration of single model calls, from a log beside the session's record.
    id integer primary key,
    session_id integer not null,
    model text,
    latency_ms integer not null
) strict;
create index call_latency_by_session on call_latency (session_id);

create table call_timing (
    -- The duration of tool calls, from a log beside the session's record. `at` is the end: the
    -- call is the one with this name, or else of this tool, whose result came at that time.
    id integer primary key,
    session_id integer not null,
    tool text not null,
    at integer not null,
    duration_ms integer not null,
    name integer
) strict;
create index call_timing_by_session on call_timing (session_id);

create table session_words (
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
    give_ups integer not null,
    primary key (session_id, origin_id, part, position)
) strict, without rowid;

create table skill_entry (
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
create index skill_entry_by_session on skill_entry (session_id);

create table price (
    -- Prices looked up before, so that a small import need not load the price lists. `prices` is
    -- null if the lists of that version have none.
    model text not null,
    provider text not null,
    prices blob,
    list_version text not null,
    primary key (model, provider)
) strict, without rowid;


-- The roll-ups that reports add up.

create table session_day (
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
) strict;
create index session_day_by_session on session_day (session_id);
-- the rows behind one session's figures
create index session_day_by_root on session_day (root_id);
-- models by day are in order, and the index alone has the sessions of some days
create index session_day_by_day on session_day (day, model, root_id);

create table call_day (
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
) strict;
create index call_day_by_day on call_day (day);
create index call_day_by_session on call_day (session_id);
create index call_day_failed on call_day (day, kind, tool)
    where tool_failures > 0 or failed_turns > 0;
-- tools are added up without sorting their calls
create index call_day_by_tool on call_day (
    tool, day, root_id, tool_calls, tool_failures, failed_turns
) where tool is not null;

create table listing (
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
-- every order of a list has an index
create index listing_by_start on listing (began_at);
create index listing_by_cost on listing (cost_nanos);
create index listing_by_duration on listing (wall_ms);
create index listing_by_turns on listing (turns);
create index listing_by_tokens on listing (tokens);
create index listing_by_failures on listing (tool_failures);
create index listing_empty on listing (root_id) where parts = 0;

create trigger session_day_added after insert on session_day begin
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

create trigger session_day_removed after delete on session_day begin
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

create trigger session_day_changed after update on session_day begin
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

create trigger session_changed after update of title, project, started_at, outcome, category, score
on session when new.title is distinct from old.title or new.project is distinct from old.project
    or new.started_at is distinct from old.started_at or new.outcome is distinct from old.outcome
    or new.category is distinct from old.category or new.score is distinct from old.score
begin
    update listing set began_at = coalesce(new.started_at, 0), project = new.project,
        words = coalesce(new.title, '') || ' ' || coalesce(new.project, '') || ' ' || new.key,
        outcome = new.outcome, category = new.category, score = new.score
    where root_id = new.id;
end;

create trigger session_removed after delete on session begin
    delete from listing where root_id = old.id;
end;

-- The words that lists are searched by, so that a rare one is found among a million sessions.
create virtual table listing_words using fts5 (
    words, content = 'listing', content_rowid = 'root_id', detail = 'none',
    tokenize = 'unicode61 remove_diacritics 2'
);

create trigger listing_added after insert on listing begin
    insert into listing_words (rowid, words) values (new.root_id, new.words);
end;

create trigger listing_removed after delete on listing begin
    insert into listing_words (listing_words, rowid, words)
    values ('delete', old.root_id, old.words);
end;

create trigger listing_reworded after update of words on listing when new.words <> old.words begin
    insert into listing_words (listing_words, rowid, words)
    values ('delete', old.root_id, old.words);
    insert into listing_words (rowid, words) values (new.root_id, new.words);
end;

create table score_due (
    -- Live sessions that have changed since they were last scored.
    session_id integer primary key
) strict;


-- Skills: facts recorded through the API, and the uses derived from them and from sessions.

create table skill_told (
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
) strict;
create unique index skill_told_by_session
    on skill_told (session_id, skill_name, coalesce(entry, ''));

create table skill_invocations (
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
create index skill_invocations_by_skill on skill_invocations (skill_name, invoked_at);
create index skill_invocations_by_job on skill_invocations (job_id, invoked_at);
create unique index skill_invocations_by_session
    on skill_invocations (session_id, skill_name, coalesce(entry, ''));
-- all that an average over the last days needs, in the order it is grouped by
create index skill_invocations_by_day on skill_invocations (
    day, skill_name, model, provider, success, cost_nanos, cost_status, duration_seconds, invoked_at
);

create table skill_charge (
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
create index skill_charge_by_root on skill_charge (root_id);

create view skill_stats_daily as
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


-- What people say about sessions. Facts: no rebuild touches them.

create table label (
    -- A person's label of a session's outcome, which overrides all other evidence.
    session_id integer primary key,
    outcome text not null,
    why text,
    labelled_at integer not null
) strict;

create table forgotten (
    -- Sessions that a person deleted for good. They are not read again, even if their files grow.
    session_id integer primary key
) strict;


-- Jobs and runs, also those of other agents' schedulers. Facts: schedulers' ledgers forget.

create table job (
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
) strict;
create index job_due on job (next_run_at) where source = 'relight' and state = 'scheduled';

create table run (
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
) strict;
create index run_by_job on run (job_id, started_at);
create index run_by_session on run (session_id);
create index run_by_start on run (started_at);
-- one slot, one run, whichever worker claims it
create unique index run_by_slot on run (job_id, scheduled_for)
    where source = 'relight' and scheduled_for is not null;
create index run_open on run (job_id) where source = 'relight' and status in ('claimed', 'running');
-- runs of other schedulers whose session is not known yet
create index run_to_join on run (session_id) where session_id is null and source <> 'relight';
create index run_to_judge on run (session_id) where session_id is not null and outcome is null;

create table run_attempt (
    -- The sessions of a run's earlier attempts.
    session_id integer primary key,
    run_id integer not null
) strict;


-- Templates: reusable extracts of good sessions. Facts: no rebuild touches them.

create table template (
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
create index template_by_place on template (project, category);

create table template_version (
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
    created_at integer not null,
    primary key (template_id, version)
) strict, without rowid;

create table template_word (
    -- The words of live templates, weighted by rarity; each template's weights are a vector of
    -- length one. A cache, rebuilt from the versions, so that a choice among thousands reads only
    -- the words of the task.
    word text not null,
    template_id integer not null,
    weight real not null,
    primary key (word, template_id)
) strict, without rowid;
create index template_word_by_template on template_word (template_id, word, weight);

create table template_rarity (
    -- The rarity of each word, and the number of templates that have it.
    word text primary key,
    rarity real not null,
    holding integer not null
) strict, without rowid;

create table candidate_due (
    -- Sessions that qualify for a candidate, but were still going on at the last look.
    session_id integer primary key
) strict;

create table provision (
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
) strict, without rowid;
create index provision_by_template on provision (template_id, version);


-- Experiments: a list of tasks, each run in both arms.

create table experiment (
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

create table experiment_run (
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
