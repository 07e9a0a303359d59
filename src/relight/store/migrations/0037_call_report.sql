create table call_report (
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
create index call_report_by_session on call_report (session_id);
-- the agent's id of the request, by which telemetry knows the call
alter table turn add column request integer;
