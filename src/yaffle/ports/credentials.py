"""The source of projects' credentials for drivers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from yaffle.model.credentials import Credential


class Credentials(Protocol):
    """Access to the credentials that projects have handed to us."""

    async def of(self, cloud: str, project: str) -> Sequence[Credential]:
        """Return what there is for a project in that cloud, what works first; may be empty.

        Raises DependencyError where it is not known now: the database is away, a key is missing.
        """
        ...

    async def used(self, credential: Credential) -> None:
        """Take note that the backend has accepted it; raises nothing."""
        ...

    async def refused(self, credential: Credential, why: str) -> None:
        """Take note that the backend does not accept it; it is kept. Raises nothing."""
        ...
