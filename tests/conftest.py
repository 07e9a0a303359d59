"""Settings for all tests: examples are the same on every machine, and never against the clock."""

from hypothesis import settings

settings.register_profile("relight", deadline=None, derandomize=True)
settings.load_profile("relight")
