"""Settings of endpoints by name; a policy's author chooses a name, never a URL."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from yaffle.integrations.driver_settings import Section
from yaffle.integrations.http import check_url, read_ca_file, read_url, same_origin

PLACEHOLDER: Final = "{operation_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A service that carries out workflows."""

    url: str = field(repr=False)
    secret: bytes = field(repr=False)
    headers: dict[str, str] = field(repr=False)
    timeout_s: float
    """`timeout`: of one request, not of the workflow."""
    poll_url: str = field(repr=False)
    """Holds `{operation_id}`; lets an engine ask that has never seen the answer's Location."""
    deduplicates: bool
    """The service runs one Idempotency-Key once. If false, nothing that may have arrived is sent
    again."""
    in_place: bool
    """The operator's word that it cannot create a second copy, hence needs no fence."""
    ca_file: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """Section `drivers.HTTP`."""

    enabled: bool
    endpoints: dict[str, Endpoint]

    @classmethod
    def read(cls, section: Section) -> HttpSettings:
        """Raise ConfigError for what is missing, wrong or unknown."""
        enabled = section.flag("enabled", default=False)
        parts = section.sections("endpoints")
        # Secrets of a workflow that is off need not exist.
        endpoints = {name: _endpoint(part) for name, part in parts.items()} if enabled else {}
        section.finish()
        return cls(enabled=enabled, endpoints=endpoints)


def _endpoint(section: Section) -> Endpoint:
    url = read_url(section, "url")
    poll_url = section.text("poll_url", "")
    if poll_url:
        filled = poll_url.replace(PLACEHOLDER, "0")
        section.attempt("poll_url", lambda: check_url(filled, section.place("poll_url")), "")
        same = not section.right("url") or same_origin(url, filled)
        if PLACEHOLDER not in poll_url or not same:
            section.wrong(
                "poll_url", f"must hold {PLACEHOLDER} and have the scheme, host and port of url"
            )
    endpoint = Endpoint(
        url=url,
        secret=section.secret(),
        headers=section.headers(),
        timeout_s=section.number("timeout", 10, low=0.1, high=300),
        poll_url=poll_url,
        deduplicates=section.flag("deduplicates", default=True),
        in_place=section.flag("in_place", default=False),
        ca_file=read_ca_file(section),
    )
    section.finish()
    return endpoint
