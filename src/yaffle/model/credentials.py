"""A project's credential: who handed it over, and for which backend."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class CredentialKind(StrEnum):
    """Way in which somebody has let us act for them."""

    APPLICATION_CREDENTIAL = "application_credential"
    """Made by a user in one project; can do what its roles can, and be revoked."""
    TRUST = "trust"
    """A user lets our own service user act in one project, in the user's place."""
    SUPERSEDED_TRUST = "superseded_trust"
    """A trust in whose place there is a newer one; never used, and kept until it is deleted there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """One credential, opened; only `secret` is one, the rest may be told to anybody."""

    id: str
    """The row that it was stored under; not a name that the backend knows."""
    cloud: str
    """The name, in the operator's own file, of the cloud that it is for."""
    project: str
    user: str
    kind: CredentialKind
    reference: str
    """What the backend calls it: the id of the application credential or of the trust."""
    secret: str = field(repr=False)
    """Of an application credential; empty for a trust, which is worth nothing without our password."""
    refused_us: int | None = None
    """When the backend last would not have it; None since it last worked."""
    refused_why: str = ""

    @property
    def called(self) -> str:
        """Return the name by which a person knows it."""
        return f"{self.kind.value.replace('_', ' ')} {self.reference}"
