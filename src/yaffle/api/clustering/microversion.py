"""Microversions of the clustering API: one header, read the same way everywhere.

An absent header, or one for other services only, means the newest (design/interfaces): openstacksdk sends
none unless it is configured to, and would otherwise be refused what it offers its users.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from yaffle.api.clustering.errors import InvalidGlobalAPIVersion, MalformedVersion

HEADER: Final = "OpenStack-API-Version"
SERVICE: Final = "clustering"


class Microversion(NamedTuple):
    """Compares as numbers do: 1.2 comes before 1.14."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


OLDEST: Final = Microversion(1, 0)
NEWEST: Final = Microversion(1, 14)
V1_2: Final = Microversion(1, 2)
V1_3: Final = Microversion(1, 3)
V1_4: Final = Microversion(1, 4)
V1_5: Final = Microversion(1, 5)
V1_6: Final = Microversion(1, 6)
V1_7: Final = Microversion(1, 7)
V1_9: Final = Microversion(1, 9)
V1_12: Final = Microversion(1, 12)
V1_13: Final = Microversion(1, 13)
V1_14: Final = NEWEST

_FORM: Final = re.compile(r"([1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})", re.ASCII)


def asked(headers: Sequence[str]) -> Microversion:
    """Return the version that the values of the header ask for.

    Raises MalformedVersion for what is no `major.minor` (0.9 is none, as versions begin with 1),
    InvalidGlobalAPIVersion for one outside of what is spoken here.
    """
    for part in ",".join(headers).split(","):
        service, _, version = part.strip().partition(" ")
        if service.lower() == SERVICE:
            return _version(version.strip())
    return NEWEST


def _version(text: str) -> Microversion:
    if text.lower() == "latest":
        return NEWEST
    form = _FORM.fullmatch(text)
    if form is None:
        raise MalformedVersion(
            f"API Version String '{text[:100]}' is of invalid format."
            " It must be of format 'major.minor'."
        )
    version = Microversion(int(form[1]), int(form[2]))
    if not OLDEST <= version <= NEWEST:
        raise InvalidGlobalAPIVersion(
            f"Version '{version}' is not supported by the API."
            f" Minimum is '{OLDEST}' and maximum is '{NEWEST}'."
        )
    return version
