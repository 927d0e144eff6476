"""The four commands: get, watch, wait, gather. Each returns the code that the process exits with."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

from yaffle_health.cli import show
from yaffle_health.cli.asking import Asked
from yaffle_health.cli.codes import PROBE_FAILED, ExitCode, worst
from yaffle_health.errors import BadOption, HealthError
from yaffle_health.model import Status
from yaffle_health.reader import DEFAULT_TIMEOUT_S, Problem, Reading

_NOBODY: Final = {Problem.REFUSED, Problem.MISSING}


def get(asked: argparse.Namespace) -> int:
    """Ask once."""
    readings = Asked(asked).read(asked.timeout)
    code = worst(r.status for r in readings)
    if asked.probe:
        for reading in readings:
            if worst([reading.status]) > ExitCode.WARN:
                print(show.line(reading))
        return ExitCode.PASS if code <= ExitCode.WARN else PROBE_FAILED
    for reading in readings:
        print(show.as_json(reading) if asked.json else show.text(reading))
    return _lenient(code, asked)


def watch(asked: argparse.Namespace) -> int:
    """Ask again and again, and say what has changed; until interrupted, or `--count` questions."""
    sources, before, number = Asked(asked), list[str](), 0
    while True:
        began = time.monotonic()
        readings = sources.read(asked.timeout)
        lines = [_state(r) for r in readings]
        for position, reading in enumerate(readings):
            if asked.json:
                print(show.as_json(reading), flush=True)
            elif not before or lines[position] != before[position]:
                print(f"{time.strftime('%H:%M:%S')}  {show.line(reading)}", flush=True)
        before, number = lines, number + 1
        if number == asked.count:
            return _lenient(worst(r.status for r in readings), asked)
        time.sleep(max(0.0, asked.interval - (time.monotonic() - began)))


def wait(asked: argparse.Namespace) -> int:
    """Ask until all of them are as wanted, or the time is over."""
    sources, deadline = Asked(asked), time.monotonic() + asked.timeout
    while True:
        remaining_s = max(0.05, deadline - time.monotonic())
        readings = sources.read(min(DEFAULT_TIMEOUT_S, remaining_s))
        true = all(_is_as_wanted(r, asked.until) for r in readings)
        over = time.monotonic() + asked.interval >= deadline
        if true or over:
            break
        time.sleep(asked.interval)
    for reading in readings:
        print(show.as_json(reading) if asked.json else show.line(reading))
    if true:
        return ExitCode.PASS
    print(f"yaffle-health: not {asked.until} within {asked.timeout:g} s", file=sys.stderr)
    return ExitCode.NOT_IN_TIME


def gather(asked: argparse.Namespace) -> int:
    """Serve the one view of a directory's workers, until SIGTERM or SIGINT."""
    from yaffle_health.prefork import gather as serve

    endpoint = serve(
        asked.directory,
        uri=asked.uri,
        expected=asked.workers,
        timeout_s=asked.timeout,
        description=asked.name or None,
        required=True,
    )
    signal.signal(signal.SIGTERM, _stop)
    with endpoint:
        print(f"listening on {', '.join(str(a) for a in endpoint.addresses)}", flush=True)
        while True:
            signal.pause()


COMMANDS: Final[dict[str, Callable[[argparse.Namespace], int]]] = {
    "get": get,
    "watch": watch,
    "wait": wait,
    "gather": gather,
}


def told(error: HealthError) -> str:
    """Return an error in the words of the command line, which has no section [healthcheck]."""
    if isinstance(error, BadOption):
        return f"{error.shown}: {error.why}"
    return str(error)


def _stop(_number: int, _frame: FrameType | None) -> None:
    sys.exit(ExitCode.PASS)


def _is_as_wanted(reading: Reading, until: str) -> bool:
    match until:
        case "pass":
            return reading.status is Status.PASS
        case "warn":
            return reading.status in {Status.PASS, Status.WARN}
        case "fail":
            return reading.status is Status.FAIL
        case _:  # gone: nobody listens. A process that is too busy to answer is not gone.
            return reading.problem in _NOBODY


def _state(reading: Reading) -> str:
    """Return what must differ for `watch` to speak: statuses and reasons, not ages."""
    checks = reading.health.checks if reading.health else ()
    told_ = [(c.name, c.component_id, c.status, c.output) for c in checks]
    return repr((reading.status, reading.problem, told_, reading.disagreements))


def _lenient(code: ExitCode, asked: argparse.Namespace) -> int:
    return ExitCode.PASS if code is ExitCode.WARN and asked.warn_ok else code
