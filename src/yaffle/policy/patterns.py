"""Regular expressions from users, with the linear-time engine: no pattern can hang the prober."""

from __future__ import annotations

from typing import Final

import re2

PATTERN_MAX: Final = 4096
_MEMORY_MAX: Final = 1 << 20


def pattern_fault(pattern: str) -> str | None:
    """Return why `pattern` cannot be used, or None; Senlin searches it in the body."""
    if len(pattern) > PATTERN_MAX:
        return f"{len(pattern)} characters long; at most {PATTERN_MAX}"
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_MAX
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        return (
            f"not a regular expression we can run: {_reason(error)}"
            " (RE2 syntax: no look-around, no back-references; escape text such as '(' with '\\')"
        )
    return None


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
