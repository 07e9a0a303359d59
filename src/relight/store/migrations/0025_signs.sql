-- what all signs about an unknown outcome agree on: 'success' or 'failure'
alter table session add column points_to text;
-- how the last user message of the stretch reads: 'thanks' or 'correction'
alter table session_words add column last_words text;
-- finds the sessions that asked for the same task
create index session_by_title on session (title, project);
