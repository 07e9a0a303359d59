"""Did it help? Sessions that were dealt to arms, or tasks run in both, compared with a verdict.

`holdout` compares the sessions that started warm with those held out cold, as they came;
`register` and `conduct` run a list of tasks in two arms, and `pairs` compares those task by task.
"""

from relight.experiments.comparison import Measure as Measure
from relight.experiments.comparison import Report as Report
from relight.experiments.comparison import compare as compare
from relight.experiments.holdout import as_json as as_json
from relight.experiments.holdout import read_report as read_report
from relight.experiments.sessions import Session as Session
from relight.experiments.sessions import read_sessions as read_sessions
