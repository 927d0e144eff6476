"""The two calls that a prefork server's hooks make: one in each worker, one in whoever answers."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final, Unpack

from yaffle_health.endpoint import serve
from yaffle_health.errors import BadOption
from yaffle_health.http.answer import HealthOf
from yaffle_health.manager import Manager
from yaffle_health.model import Health
from yaffle_health.prefork.workers import TIMEOUT_S, Workers, private
from yaffle_health.server import Endpoint
from yaffle_health.server.options import EndpointOptions
from yaffle_health.uris import PID, Unix

DIRECTORY_MODE: Final = 0o700
NO_CACHE: Final = -1
_LOG = logging.getLogger("yaffle_health")


def serve_worker(
    source: Manager | HealthOf,
    directory: str | os.PathLike[str],
    **options: Unpack[EndpointOptions],
) -> Endpoint:
    """Answer for this process at DIRECTORY/PID.sock; call it after the fork, in every worker.

    The directory is made, for its owner alone, if it is not there. A directory that cannot be used
    is logged and kept in `failures`, as `serve` does it, unless `required`: an error in a hook would
    keep the whole server from starting.
    """
    try:
        place = private(directory)
        _make(place)
    except BadOption as error:
        return _refused(error, required=options.get("required", False))
    return serve(source, uri=str(Unix(f"{place}/{PID}.sock")), **options)


def gather(
    directory: str | os.PathLike[str],
    *,
    uri: str,
    expected: int = 0,
    timeout_s: float = TIMEOUT_S,
    description: str | None = None,
    cache_control: int = NO_CACHE,
    required: bool = False,
) -> Endpoint:
    """Answer for all the workers of a directory at `uri`: in the master, or any other process.

    `expected`, `timeout_s` and `description` are those of `Workers`. Nothing is cached by default:
    an answer about others is true for no known time.
    """
    try:
        workers = Workers(
            directory, expected=expected, timeout_s=timeout_s, description=description
        )
    except BadOption as error:
        return _refused(error, required=required)
    return serve(workers.health, uri=uri, cache_control=cache_control, required=required)


def _refused(error: BadOption, *, required: bool) -> Endpoint:
    """Return an endpoint that does not serve and knows why; raise instead where it is required."""
    if required:
        raise error
    _LOG.error("%s; the service goes on without its health endpoint", error)
    refused = Endpoint(_nothing)
    refused.note(error)
    return refused


def _nothing(group: str | None) -> Health:
    raise AssertionError(f"asked about {group}, with no address to be asked at")


def _make(place: Path) -> None:
    try:
        place.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise BadOption("directory", str(place), error.strerror or str(error)) from error
