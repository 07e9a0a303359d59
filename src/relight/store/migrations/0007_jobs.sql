-- Our own jobs are jobs with the source 'relight', keyed by their name. All that a person wrote of
-- one is in its definition, a JSON object: SQL asks only when it is due and in what state it is
-- (scheduled, paused, done or removed; a removed one keeps its history).
alter table job add column definition text;
-- as people name it: ours plainly, those of other schedulers with their source before it
alter table job add column full_name text
    generated always as (case source when 'relight' then key else source || ':' || key end) virtual;
create index job_due on job (next_run_at) where source = 'relight' and state = 'scheduled';

-- What a run of ours has beyond what a foreign ledger tells.
alter table run add column attempts integer;
alter table run add column note text;
-- the scheduler that has it, and until when it said it would; a dead one's run is never repeated
alter table run add column holder text;
alter table run add column lease_until integer;
alter table run add column model text;
alter table run add column provider text;
-- of all attempts; null where only the session tells it, or nobody
alter table run add column cost_nanos integer;
alter table run add column input_tokens integer;
alter table run add column cache_read_tokens integer;
alter table run add column cache_write_tokens integer;
alter table run add column output_tokens integer;
alter table run add column answer_file text;
-- JSON: where the answer went, and what should be seen although it stopped nothing
alter table run add column delivery text;
alter table run add column warnings text;

-- One slot, one run, whoever asks for it.
create unique index run_by_slot on run (job_id, scheduled_for)
    where source = 'relight' and scheduled_for is not null;
create index run_open on run (job_id) where source = 'relight' and status in ('claimed', 'running');
-- runs of other schedulers that still look for their session; ours are told theirs
create index run_to_join on run (session_id) where session_id is null and source <> 'relight';
create index run_by_start on run (started_at);
create index run_to_judge on run (session_id) where session_id is not null and outcome is null;
