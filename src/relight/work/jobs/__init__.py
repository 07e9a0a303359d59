"""Scheduled agent work: what is due runs once for its slot, and its outcome is never dressed up.

A run goes through these hands:

- `job` says what a job, a run and a run's result are.
- `schedules` tells when a job is due; `slots` claims one run for one slot; `registry` keeps jobs.
- `scheduler` hands claimed runs to `worker` processes, which do them by way of `running`.
- `execution.execute_run(store, job, run, *, config, clock) -> RunResult` does the work of one run,
  in the thread that calls it. A run that fails is a result, never an exception. Where the run must
  end at once `SystemExit` or `KeyboardInterrupt` is raised in it: it kills what it started and
  lets the exception pass, unless what came of it is known already.
  A session of our own is named `<run.key>-…`, so that what a run cost that was cut short is known.
  What its agent has begun is in `notes` until the end, for a process that does not live to tell it.
- `results` writes the result down, joined to its sessions, in one transaction; `losses` does it for
  a run whose process is gone, and `aftermath` then finds the sessions that such a run left.
"""
