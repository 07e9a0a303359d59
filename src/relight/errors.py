"""What Relight tells a person when something cannot be done."""


class RelightError(Exception):
    """A problem told in one sentence, with a hint at what to do about it."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
