"""The options of a watch made ready: the pattern compiled once, every number within its bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from yaffle.prober.verdict import Pattern, compile_pattern

if TYPE_CHECKING:
    from yaffle.prober.wire import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Options made ready, shared by every check of a watch; seconds."""

    ssl_verify: bool
    pattern: Pattern | None
    fault: str
    """Why nothing can be asked under these options; empty when all is well."""
    attempts: int
    retry_interval_s: float
    timeout_s: float
    keep_alive: bool


def ready(options: Options) -> Rules:
    """Compile the options once; never raises."""
    fault = ""
    pattern = None
    try:
        pattern = compile_pattern(options.healthy_response)
    except ValueError as error:
        fault = f"the healthy response is not a usable pattern: {error}"
    return Rules(
        ssl_verify=options.ssl_verify,
        pattern=pattern,
        fault=fault,
        attempts=max(1, options.attempts),
        retry_interval_s=max(0.0, options.retry_interval_s),
        timeout_s=max(0.01, options.timeout_s),
        keep_alive=options.keep_alive,
    )
