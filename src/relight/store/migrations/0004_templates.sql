-- Templates: reusable extracts of good sessions. Facts: no rebuild touches them.
create table template (
    id integer primary key,
    name text not null unique,
    project text,
    category text not null,
    created_at integer not null,
    -- null while it is live; a retired one is kept, with the reason, and can be restored
    retired_at integer,
    retired_why text
) strict;
create index template_by_place on template (project, category);

-- What a template says never changes in place: a change is a new version.
create table template_version (
    template_id integer not null,
    version integer not null,
    description text not null,
    tags text not null,
    task_type text not null,
    -- the words of the task it was made from, which a new task is compared with
    task text not null,
    tools text not null,
    -- words of what was done, by which templates are found to agree
    actions text not null,
    seed text not null,
    tokens integer not null,
    content_hash text not null,
    score real,
    outcome text not null,
    evidence text not null,
    -- the rules that it did not pass when a person said to take it all the same
    overruled text not null,
    -- what redaction took out, by rule
    redactions text not null,
    -- the session it was made from, as `source:id`, or as its maker told it
    source_session text,
    -- where a foreign template came from
    provenance text,
    created_at integer not null,
    primary key (template_id, version)
) strict, without rowid;

-- The words of live templates, weighed by rarity, each template's a vector of length one; kept so
-- that choosing among thousands reads only the words of the task. Made anew from the versions.
create table template_word (
    word text not null,
    template_id integer not null,
    weight real not null,
    primary key (word, template_id)
) strict, without rowid;
create index template_word_by_template on template_word (template_id, word, weight);
create table template_rarity (
    word text primary key,
    rarity real not null,
    holding integer not null
) strict, without rowid;

-- One decision to start a session warm or, held out, cold, made before its first model call. A
-- cold one keeps the template that it would have had: only so are the arms alike.
create table provision (
    id text primary key,
    -- the session's own id, as the agent knows it; the provision's where none was told
    session_key text not null unique,
    source text,
    arm text not null,
    template_id integer,
    version integer,
    similarity real,
    reason text not null,
    project text,
    category text,
    tokens integer,
    created_at integer not null
) strict, without rowid;
create index provision_by_template on provision (template_id, version);
-- a provision knows the session's own id, and not always its source
create index session_by_own_key on session (key);
