-- Several machines: what this machine still has to push, and what others have pushed here.

create table push_due (
    -- What was not acknowledged yet by the server that this machine has joined. `kind` is part (of
    -- the tape), session (its outcome has changed) or forget (its id on the server). Triggers fill
    -- it: a mark in the order of ids would skip a part whose id was used before.
    kind text not null,
    id integer not null,
    primary key (kind, id)
) strict, without rowid;

create table person (
    -- People whose machines push here.
    id integer primary key,
    name text not null unique,
    created_at integer not null
) strict;

create table token (
    -- Tokens of people. Only a hash is stored; `scopes` are words: push, read, admin.
    id integer primary key,
    person_id integer not null references person (id),
    digest text not null unique,
    scopes text not null,
    created_at integer not null,
    used_at integer,
    revoked_at integer
) strict;

create table machine (
    -- Machines that push here. `id` is a hash of the machine's own store id, so that two containers
    -- of one name stay two. Ids that are unique on one machine only end in `@` and the `key`.
    id integer primary key,
    key text not null unique,
    name text not null,
    person_id integer not null references person (id),
    -- figures or tapes
    share text not null,
    joined_at integer not null,
    pushed_at integer
) strict;

create table machine_session (
    -- The machines that a session was pushed from; the first of them has it in reports.
    session_id integer not null,
    machine_id integer not null references machine (id),
    first_at integer not null,
    primary key (session_id, machine_id)
) strict, without rowid;
create index machine_session_by_machine on machine_session (machine_id);

create table told_outcome (
    -- The outcome and the kind of a session as the machine that recorded it judged them. They count
    -- for a session without words here, and everywhere if a person labelled it there.
    session_id integer not null,
    machine_id integer not null references machine (id),
    outcome text,
    points_to text,
    task_type text,
    category text,
    score real,
    is_label integer not null,
    told_at integer not null,
    primary key (session_id, machine_id)
) strict, without rowid;

create table derive_due (
    -- Parts of the tape that were pushed, and whose rows are not derived yet. With `reason` it
    -- cannot be derived.
    tape_part_id integer primary key,
    received_at integer not null,
    reason text
) strict;

-- 1 if the records are rows without words, and no records of an agent
alter table tape_part add column is_figures integer not null default 0;
create index tape_part_by_machine on tape_part (machine_id) where machine_id is not null;

create trigger tape_part_added after insert on tape_part
when new.machine_id is null and exists (select 1 from meta where key = 'team') begin
    insert into push_due (kind, id) values ('part', new.id) on conflict do nothing;
end;

create trigger tape_part_grown after update of raw_bytes on tape_part
-- the parts of a live session are joined into one when it ends
when new.machine_id is null and exists (select 1 from meta where key = 'team') begin
    insert into push_due (kind, id) values ('part', new.id) on conflict do nothing;
end;

create trigger tape_part_removed after delete on tape_part begin
    delete from push_due where kind = 'part' and id = old.id;
    delete from derive_due where tape_part_id = old.id;
end;

create trigger session_judged after update of outcome, points_to, category, score on session
when new.machine_id is null and (new.outcome is distinct from old.outcome
    or new.points_to is distinct from old.points_to or new.category is distinct from old.category
    or new.score is distinct from old.score) and exists (select 1 from meta where key = 'team')
begin
    insert into push_due (kind, id) values ('session', new.id) on conflict do nothing;
end;

create trigger label_added after insert on label
when exists (select 1 from meta where key = 'team') begin
    insert into push_due (kind, id) values ('session', new.session_id) on conflict do nothing;
end;

create trigger label_changed after update on label
when exists (select 1 from meta where key = 'team') begin
    insert into push_due (kind, id) values ('session', new.session_id) on conflict do nothing;
end;

create trigger label_removed after delete on label
when exists (select 1 from meta where key = 'team') begin
    insert into push_due (kind, id) values ('session', old.session_id) on conflict do nothing;
end;
