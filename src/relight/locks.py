"""Files held by one process at a time."""


def hold(file: int, *, waits: bool = True) -> bool:
    """Keep others out of an open file until it is closed; False if another has it.

    Not on Windows, which has no such locks: whoever calls must do without there.
    """
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True
