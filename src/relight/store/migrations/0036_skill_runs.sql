-- The runs of skills are counted by job and model without sorting all uses.
create index skill_invocations_by_run on skill_invocations (
    skill_name, job_id, model, root_id, success, cost_status, cost_nanos, invoked_at
);
