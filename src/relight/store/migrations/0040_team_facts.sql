-- Copies of a home, sessions that one person of several forgot, runs and uses that are pushed.

-- A text that changes with every push. Only the machine that sent the last push knows it, so a copy
-- of its home is found by its next push.
alter table machine add column push_mark text;
-- the machine whose home this one was copied from: what both had at that moment counts once
alter table machine add column copied_from integer;

create table forgotten_by (
    -- Sessions that a person forgot while another person's machine had pushed them too: what this
    -- person's machines push of them is refused.
    session_id integer not null,
    person_id integer not null references person (id),
    primary key (session_id, person_id)
) strict, without rowid;

-- Facts that machines push beside their tapes: runs of jobs, and recorded uses of skills. A pushed
-- job has no definition here and is never run here.
alter table job add column machine_id integer;
alter table run add column machine_id integer;
alter table skill_told add column machine_id integer;

create trigger run_added after insert on run
when new.machine_id is null and new.status not in ('claimed', 'running')
    and exists (select 1 from meta where key = 'team') begin
    insert into push_due (kind, id) values ('run', new.id) on conflict do nothing;
end;

create trigger run_ended after update of status, outcome, session_id, cost_nanos, error on run
when new.machine_id is null and new.status not in ('claimed', 'running')
    and exists (select 1 from meta where key = 'team') begin
    insert into push_due (kind, id) values ('run', new.id) on conflict do nothing;
end;

create trigger run_removed after delete on run begin
    delete from push_due where kind = 'run' and id = old.id;
end;

create trigger skill_told_added after insert on skill_told
when new.machine_id is null and exists (select 1 from meta where key = 'team') begin
    insert into push_due (kind, id) values ('use', new.id) on conflict do nothing;
end;

create trigger skill_told_removed after delete on skill_told begin
    delete from push_due where kind = 'use' and id = old.id;
end;
