-- The tool call that stands for what telemetry reports, as long as no record of the agent has it.
alter table call_timing add column report_id integer;
