-- A candidate was found by an import, and is not used until a person takes it. Null in all others.
alter table template add column proposed_at integer;

-- The agent's own id of a call, hashed, where it is not the row's: a witness beside the record
-- knows a call by nothing else. Ids are used again by some servers, so time decides among them.
alter table tool_call add column name integer;
alter table call_timing add column name integer;

-- Live sessions whose events came in one by one since they were last scored.
create table score_due (session_id integer primary key) strict;

-- Sessions that clear the bar for a candidate, but were still going on when last looked at.
create table candidate_due (session_id integer primary key) strict;
