-- The branch of the project's repository that a session worked on, the last one if it changed.
alter table session add column branch text;
