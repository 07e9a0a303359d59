-- Forks: the end of what a fork copied, and the sessions that hold a turn.

-- The moment that a fork began, null if the session is none, or if its records do not show it: what
-- it holds from before that moment, it copied.
alter table session add column forked_at integer;

create index shared_turn_by_turn on shared_turn (turn_id);

-- the sub-agents and forks of a session
create index session_by_parent on session (parent_id) where parent_id is not null;
