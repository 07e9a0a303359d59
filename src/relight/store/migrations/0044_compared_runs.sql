-- Models are compared by the runs of skills over all days. They are stored, so that no page sorts all
-- uses and looks up their sessions.
drop index skill_invocations_by_run;

create table skill_run (
    -- All uses of a skill on one model in one session are one run. `use_id` is the first of them.
    -- `project` is that of the session, null in a job. `nanos` is null unless the whole cost is
    -- known. Triggers keep the rows equal to those of skill_run_now.
    use_id integer primary key,
    skill_name text not null,
    job_id text,
    project text,
    model text,
    success integer,
    nanos integer,
    last_at integer
) strict;
create index skill_run_by_skill on skill_run (
    skill_name, job_id, project, model, success, nanos, last_at
);

create view skill_run_now as
select min(used.id) as use_id, used.session_id, used.skill_name, used.job_id,
    case when used.job_id is null then session.project end as project, used.model,
    min(used.success) as success,
    case when count(*) = count(case when used.cost_status <> 'partial' then used.cost_nanos end)
        then sum(used.cost_nanos) end as nanos,
    max(used.invoked_at) as last_at
from skill_invocations as used left join session on session.id = used.root_id
where used.session_id is not null
group by used.session_id, used.skill_name, used.job_id, session.project, used.model
union all
select id, session_id, skill_name, job_id, cast(null as text), model, success,
    case when cost_status <> 'partial' then cost_nanos end, invoked_at
from skill_invocations where session_id is null;

insert into skill_run (use_id, skill_name, job_id, project, model, success, nanos, last_at)
select use_id, skill_name, job_id, project, model, success, nanos, last_at from skill_run_now;

create trigger skill_used after insert on skill_invocations begin
    delete from skill_run where use_id in (
        select id from skill_invocations
        where session_id = new.session_id and skill_name = new.skill_name
    );
    insert into skill_run (use_id, skill_name, job_id, project, model, success, nanos, last_at)
    select use_id, skill_name, job_id, project, model, success, nanos, last_at from skill_run_now
    where session_id = new.session_id and skill_name = new.skill_name
    union all
    select use_id, skill_name, job_id, project, model, success, nanos, last_at from skill_run_now
    where session_id is null and use_id = new.id;
end;

create trigger skill_use_removed after delete on skill_invocations begin
    delete from skill_run where use_id = old.id or use_id in (
        select id from skill_invocations
        where session_id = old.session_id and skill_name = old.skill_name
    );
    insert into skill_run (use_id, skill_name, job_id, project, model, success, nanos, last_at)
    select use_id, skill_name, job_id, project, model, success, nanos, last_at from skill_run_now
    where session_id = old.session_id and skill_name = old.skill_name;
end;

create trigger skill_use_changed after update on skill_invocations begin
    delete from skill_run where use_id = old.id or use_id in (
        select id from skill_invocations
        where session_id in (old.session_id, new.session_id)
            and skill_name in (old.skill_name, new.skill_name)
    );
    insert into skill_run (use_id, skill_name, job_id, project, model, success, nanos, last_at)
    select use_id, skill_name, job_id, project, model, success, nanos, last_at from skill_run_now
    where session_id in (old.session_id, new.session_id)
        and skill_name in (old.skill_name, new.skill_name)
    union all
    select use_id, skill_name, job_id, project, model, success, nanos, last_at from skill_run_now
    where session_id is null and use_id = new.id;
end;

create trigger skill_run_moved after update of project on session
when new.project is distinct from old.project begin
    update skill_run set project = new.project where job_id is null and use_id in (
        select id from skill_invocations
        where session_id = new.source || ':' || new.key and root_id = new.id
    );
end;

-- failed calls of some days are read from the index alone
drop index call_day_failed;
create index call_day_failed on call_day (
    day, kind, tool, root_id, session_id, tool_calls, tool_failures, failed_turns, last_at
) where tool_failures > 0 or failed_turns > 0;
