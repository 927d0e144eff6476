"""Microversions: one header, read the same way by every API that has them.

An absent header, or one for other services only, means the newest of the clustering API
(design/interfaces): openstacksdk sends none unless it is configured to, and would otherwise be refused
what it offers its users. Other APIs say what it means to them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """The versions that an API speaks, and the words in which it refuses others."""

    service: str
    oldest: Microversion
    newest: Microversion
    absent: Microversion
    """What it means to say none."""
    malformed: str
    """With `{0}`: what was asked for."""
    unsupported: str
    """With `{0}`, and the oldest and newest version."""

    def asked(self, headers: Sequence[str]) -> Microversion:
        """Return the version that the values of the header ask for.

        Raises MalformedVersion for what is no `major.minor` (0.9 is none, as versions begin with 1),
        InvalidGlobalAPIVersion for one outside of what is spoken here.
        """
        for part in ",".join(headers).split(","):
            service, _, version = part.strip().partition(" ")
            if service.lower() == self.service:
                return self._version(version.strip())
        return self.absent

    def _version(self, text: str) -> Microversion:
        if text.lower() == "latest":
            return self.newest
        form = _FORM.fullmatch(text)
        if form is None:
            raise MalformedVersion(self.malformed.format(text[:100]))
        version = Microversion(int(form[1]), int(form[2]))
        if not self.oldest <= version <= self.newest:
            said = self.unsupported.format(version, self.oldest, self.newest)
            raise InvalidGlobalAPIVersion(said)
        return version


CLUSTERING: Final = Spoken(
    service=SERVICE,
    oldest=OLDEST,
    newest=NEWEST,
    absent=NEWEST,
    malformed="API Version String '{0}' is of invalid format. It must be of format 'major.minor'.",
    unsupported="Version '{0}' is not supported by the API. Minimum is '{1}' and maximum is '{2}'.",
)
asked: Final = CLUSTERING.asked
