"""Record the model calls of a Python program that `relight exec` started, and of its children.

Python imports the first `sitecustomize` on its path when it starts. This one leaves the path as the
program would have it, and then runs the one that it hides.
"""

import os
import sys
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_OWN = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib loads slowly
sys.path[:] = [one for one in sys.path if os.path.abspath(one or ".") != _OWN]  # noqa: PTH100

# A child may run in another Python, without Relight. Its output is for the program that started it,
# so nothing is said; `relight exec` has tried the Python that the user named.
with suppress(Exception):
    from relight.intake.auto.hooks import activate

    activate()

_spec = PathFinder.find_spec("sitecustomize")
if _spec is not None and _spec.loader is not None:
    _module = module_from_spec(_spec)
    sys.modules["sitecustomize"] = _module
    _spec.loader.exec_module(_module)
