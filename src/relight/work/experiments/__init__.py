"""Experiments: sessions dealt to arms by chance, or tasks run in two arms, with a verdict.

`holdout` compares the sessions that started warm with those held out cold. `register` and `conduct`
run a list of tasks in two arms, and `pairs` compares those task by task. `metrics` has one row for
each metric.
"""
