-- Which advisers of a mixture were muted for a session, dealt at random before its first call.
create table adviser_deal (
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
