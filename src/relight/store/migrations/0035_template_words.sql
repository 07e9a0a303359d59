-- The words of the session that a template was made of, by where they stood, and of what it did: a
-- new task is compared with them. Null until they are read from the seed of an older template.
alter table template_version add column words text;
