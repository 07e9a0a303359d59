create table budget (
    -- What may be spent in each day, week or month. `scope` is `all`, or `project:…`, `source:…`
    -- or `job:…` with the name after it.
    scope text not null,
    period text not null,
    limit_nanos integer not null,
    -- 1 if agents are stopped when it is used up
    stops integer not null,
    primary key (scope, period)
) strict, without rowid;
