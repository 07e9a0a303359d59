create table notice (
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
create index notice_due on notice (next_try_at) where next_try_at is not null;
