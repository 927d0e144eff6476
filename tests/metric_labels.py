"""What may stand in a label of a metric: words that a rule can be written with, never sentences."""

from __future__ import annotations

import re
from typing import Final

from prometheus_client import CollectorRegistry

WORD: Final = re.compile(r"[a-z0-9_]+")
OTHERS: Final = {
    # the number of a histogram's bucket
    "le": re.compile(r"\+Inf|[0-9.e+-]+"),
    # names of detection modes, as policies write them
    "mode": re.compile(r"[A-Z0-9_]+"),
    # codes that the API, the pages and the command line write in the same way
    **dict.fromkeys(("reason", "result", "state"), re.compile(r"[a-z_]+(-[a-z]+)*")),
}
"""Labels whose values are no words of ours."""


def is_word(label: str, value: str) -> bool:
    return bool(OTHERS.get(label, WORD).fullmatch(value))


def sentences(registry: CollectorRegistry) -> list[str]:
    """Return every label of what was counted that holds no word."""
    return sorted(
        {
            f"{sample.name}{{{label}={value!r}}}"
            for family in registry.collect()
            for sample in family.samples
            for label, value in sample.labels.items()
            if not is_word(label, value)
        }
    )
