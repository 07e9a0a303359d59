-- What kind of failure ended a run, and when the other side allows the next attempt.
alter table run add column failure_kind text;
alter table run add column retry_at integer;
