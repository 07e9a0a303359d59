"""Scheduled agent work: each slot of a job runs once, and its outcome follows from evidence.

From a slot to the model:

- `schedules` computes slots, `registry` stores jobs, `slots` claims one run for one slot and writes
  its end. `leases` shows which process holds a run and whether it is alive.
- `scheduler` hands claimed runs to its `pool`; each worker is a process of `worker`. A run that a
  person starts has no worker: `claimed_run.run_now`.
- `claimed_run.complete_run` calls an `Execute` function and writes its result.
- `run.execute_run(store, job, run, *, config, clock) -> JobResult` does the work in the calling
  thread. A failed run is a result, never an exception. `SystemExit` or `KeyboardInterrupt` raised
  in it ends the run at once: it kills the processes it started and lets the exception pass, unless
  the result is known already.
- `preparation` checks budget, model, tools and skills; `attempts` repeats and judges attempts;
  `runners` runs Relight's own agent or another agent's program, `budget_watch` ends a program that
  used its budget up; `delivery` writes and delivers the answer.
- `notes` on disk describe a run in progress. `lost_runs` uses them if the run's process dies.
"""
