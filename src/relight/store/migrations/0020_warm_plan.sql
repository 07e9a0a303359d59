-- How warm sessions are compared with cold ones, written before the sessions it counts. A plan counts
-- the provisions from `begun_at` until the next plan begins.
create table warm_plan (
    id integer primary key,
    -- success, early_failures or both
    measure text not null,
    -- the planned gain in the success rate, and the planned fall of the share of early failures
    effect real not null,
    early_effect real not null,
    -- the share of wrong verdicts that is accepted if warm starts have no effect
    error real not null,
    begun_at integer not null
) strict;

-- the share of sessions held out when this one was dealt
alter table provision add column hold_out real;

-- sessions dealt before there were plans count for the plan that every store begins with
insert into warm_plan (measure, effect, early_effect, error, begun_at)
select 'both', 0.1, 0.03, 0.05, first from (
    select min(created_at) as first from provision
    where template_id is not null and experiment_id is null
) as dealt where first is not null;
