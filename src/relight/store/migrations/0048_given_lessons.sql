-- The lessons of the project that a session was dealt, as a JSON list of id, cause and text; null if there
-- were none. A coin of their own gives them (1) or holds them out (0), with the share held out then.
alter table provision add column lessons text;
alter table provision add column has_lessons integer;
alter table provision add column lessons_hold_out real;

-- the planned fall of the share of sessions that fail by a cause of which they were given a lesson
alter table warm_plan add column cause_effect real not null default 0.3;
