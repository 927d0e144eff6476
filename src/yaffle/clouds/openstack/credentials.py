"""Whose word counts in a cloud: a reference to credentials, or the credentials of one project.

A cloud of its own is named in `clouds.yaml`. A deployed service holds an application credential for
each project instead, which its user can revoke; a trust would be one more class of this union.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from yaffle.clouds.settings import Section
from yaffle.errors import ConfigError

if TYPE_CHECKING:
    from keystoneauth1.plugin import BaseAuthPlugin

SETTINGS: Final = ("cloud", "clouds_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudsYaml:
    """A cloud by its name in a `clouds.yaml`."""

    name: str
    file: Path | None = None
    """None: where OpenStack's own tools look for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationCredential:
    """What a user has made for us in a project: it can do what its roles can, and be revoked."""

    auth_url: str
    id: str
    secret: str = field(repr=False)
    region: str | None = None
    interface: str = "public"
    ca_file: Path | None = None


Credentials = CloudsYaml | ApplicationCredential


def read_credentials(section: Section) -> CloudsYaml:
    """Return the cloud that a driver's section names; raise ConfigError where it names none."""
    name, file = section.text("cloud"), section.path("clouds_file")
    if file is not None and not file.is_file():
        raise ConfigError(f"{section.place('clouds_file')}: there is no file {file}")
    return CloudsYaml(name=name, file=file)


def plugin_of(credential: ApplicationCredential) -> BaseAuthPlugin:
    """Return the authentication of an application credential; imports keystoneauth."""
    from keystoneauth1.identity import v3  # noqa: PLC0415 - slow, and only for who has a cloud

    return v3.ApplicationCredential(
        auth_url=credential.auth_url,
        application_credential_id=credential.id,
        application_credential_secret=credential.secret,
    )
