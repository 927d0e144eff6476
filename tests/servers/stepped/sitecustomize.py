"""For engines whose wall clock is stepped: libfaketime takes the end of a sleep for a wall time."""

import select
import time


def sleep(seconds: float) -> None:
    """Sleep by a call that libfaketime leaves alone."""
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    select.select((), (), (), seconds)


time.sleep = sleep
