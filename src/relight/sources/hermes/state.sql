-- Hermes' state.db at schema 22: the tables and indexes that a session leaves something in.

create table schema_version (version integer not null);
insert into schema_version values (22);

create table state_meta (key text primary key, value text);

create table sessions (
    id text primary key,
    source text not null,
    user_id text,
    session_key text,
    chat_id text,
    chat_type text,
    thread_id text,
    display_name text,
    origin_json text,
    expiry_finalized integer default 0,
    model text,
    model_config text,
    system_prompt text,
    parent_session_id text,
    started_at real not null,
    ended_at real,
    end_reason text,
    message_count integer default 0,
    tool_call_count integer default 0,
    input_tokens integer default 0,
    output_tokens integer default 0,
    cache_read_tokens integer default 0,
    cache_write_tokens integer default 0,
    reasoning_tokens integer default 0,
    cwd text,
    git_branch text,
    git_repo_root text,
    billing_provider text,
    billing_base_url text,
    billing_mode text,
    estimated_cost_usd real,
    actual_cost_usd real,
    cost_status text,
    cost_source text,
    pricing_version text,
    title text,
    api_call_count integer default 0,
    handoff_state text,
    handoff_platform text,
    handoff_error text,
    compression_failure_cooldown_until real,
    compression_failure_error text,
    compression_fallback_streak integer not null default 0,
    profile_name text,
    rewind_count integer not null default 0,
    archived integer not null default 0,
    foreign key (parent_session_id) references sessions (id)
);

create table messages (
    id integer primary key autoincrement,
    session_id text not null references sessions (id),
    role text not null,
    content text,
    tool_call_id text,
    tool_calls text,
    tool_name text,
    effect_disposition text,
    timestamp real not null,
    token_count integer,
    finish_reason text,
    reasoning text,
    reasoning_content text,
    reasoning_details text,
    codex_reasoning_items text,
    codex_message_items text,
    platform_message_id text,
    observed integer default 0,
    active integer not null default 1,
    compacted integer not null default 0,
    api_content text
);

create table session_model_usage (
    session_id text not null references sessions (id) on delete cascade,
    model text not null,
    billing_provider text not null default '',
    billing_base_url text not null default '',
    billing_mode text not null default '',
    task text not null default '',
    api_call_count integer not null default 0,
    input_tokens integer not null default 0,
    output_tokens integer not null default 0,
    cache_read_tokens integer not null default 0,
    cache_write_tokens integer not null default 0,
    reasoning_tokens integer not null default 0,
    estimated_cost_usd real not null default 0,
    actual_cost_usd real not null default 0,
    cost_status text,
    cost_source text,
    first_seen real,
    last_seen real,
    primary key (session_id, model, billing_provider, billing_base_url, billing_mode, task)
);

create table gateway_routing (
    scope text not null default '',
    session_key text not null,
    entry_json text not null,
    updated_at real not null,
    primary key (scope, session_key)
);

create table compression_locks (
    session_id text primary key,
    holder text not null,
    acquired_at real not null,
    expires_at real not null
);

create table async_delegations (
    delegation_id text primary key,
    origin_session text not null,
    origin_ui_session_id text not null default '',
    parent_session_id text,
    state text not null,
    dispatched_at real not null,
    completed_at real,
    updated_at real not null,
    event_json text,
    result_json text,
    delivery_state text not null default 'pending',
    delivery_attempts integer not null default 0,
    delivered_at real,
    owner_pid integer,
    owner_started_at integer,
    task_json text,
    delivery_claim text,
    delivery_claimed_at real
);

create index idx_sessions_source on sessions (source);
create index idx_sessions_parent on sessions (parent_session_id);
create index idx_sessions_started on sessions (started_at desc);
create unique index idx_sessions_title_unique on sessions (title) where title is not null;
create index idx_messages_session on messages (session_id, timestamp);
create index idx_messages_session_active on messages (session_id, active, timestamp);
create index idx_session_model_usage_session on session_model_usage (session_id);
