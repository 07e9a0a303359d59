"""Did it help? Sessions that were dealt to arms, or tasks run in both, compared with a verdict.

`holdout` compares the sessions that started warm with those held out cold, as they came;
`register` and `conduct` run a list of tasks in two arms, and `pairs` compares those task by task.
"""

from relight.work.experiments.comparison import Measure as Measure
from relight.work.experiments.comparison import Report as Report
from relight.work.experiments.comparison import compare as compare
from relight.work.experiments.holdout import as_json as as_json
from relight.work.experiments.holdout import read_report as read_report
from relight.work.experiments.sessions import Session as Session
from relight.work.experiments.sessions import read_sessions as read_sessions
