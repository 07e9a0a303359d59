"""What Relight tells a person when something cannot be done."""

from collections.abc import Sequence


class RelightError(Exception):
    """A problem told in one sentence, with a hint at what to do about it."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ParameterError(RelightError):
    """A value that cannot be meant; `names` are the parameters that the message speaks of."""

    def __init__(self, message: str, hint: str | None = None, *, names: Sequence[str]) -> None:
        super().__init__(message, hint)
        self.names = tuple(names)


class MissingError(RelightError):
    """What was asked for by name is not there."""


class StoreError(RelightError):
    """The database could not be used."""


class RefusedError(RelightError):
    """A job's run was not begun, so that nothing was spent."""


class ModelContextError(RefusedError):
    """A model's context window is too small for unattended work."""
