-- Windows of plans begin and end at hours, not days. The sums of each session by hour spare their
-- page reading single turns. An hour ends with its last moment: `hour` is (at - 1) / 3,600,000.
create table session_hour (
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
create index session_hour_by_source on session_hour (
    source, hour, first_at, turns, unpriced_turns, tokens, nanos
);

insert into session_hour
    (session_id, hour, source, first_at, turns, unpriced_turns, tokens, nanos)
select session.id, (used.at - 1) / 3600000, session.source, min(used.at), count(*),
    count(*) - count(used.cost_nanos), sum(used.tokens), sum(used.cost_nanos)
from (
    select session_id, at, cost_nanos, coalesce(input_tokens, 0) + coalesce(cache_read_tokens, 0)
        + coalesce(cache_write_tokens, 0) + coalesce(output_tokens, 0) as tokens
    from turn where at is not null
) as used join session on session.id = used.session_id
where used.tokens > 0 group by session.id, (used.at - 1) / 3600000, session.source;

-- refusals because of a full window
create index turn_limited on turn (at) where failure = 'usage_limit';
