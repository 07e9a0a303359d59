"""The errors that Relight reports to a person."""

from collections.abc import Sequence


class RelightError(Exception):
    """A problem in one sentence, with a hint what to do about it."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ParameterError(RelightError):
    """A bad value of a parameter; `names` are the parameters that the message names."""

    def __init__(self, message: str, hint: str | None = None, *, names: Sequence[str]) -> None:
        super().__init__(message, hint)
        self.names = tuple(names)


class MissingError(RelightError):
    """Something requested by name does not exist."""


class StoreError(RelightError):
    """The database could not be used."""


class DamagedTapeError(StoreError):
    """Records on a tape are not those that were written."""


class RefusedError(RelightError):
    """A job's run was not started, so that nothing was spent."""


class ModelContextError(RefusedError):
    """A model's context window is too small for unattended work."""
