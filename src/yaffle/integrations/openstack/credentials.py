"""Whose word counts in a cloud: a reference to credentials, or the credentials of one project.

A cloud of its own is named in `clouds.yaml`. A deployed service names one there too, for where its
Keystone is and who the service itself is; in it, it acts for each project with what a user of that
project has handed to it: an application credential, or a trust.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from yaffle.config.faults import quoted
from yaffle.errors import ConfigError
from yaffle.integrations.driver_settings import Section
from yaffle.model.credentials import CredentialKind

if TYPE_CHECKING:
    from keystoneauth1.plugin import BaseAuthPlugin

    from yaffle.model.credentials import Credential

SETTINGS: Final = ("cloud", "clouds_file", "credentials")
OURS: Final = "cloud"
PROJECTS: Final = "projects"
_PASSWORD: Final = frozenset({"", "password", "v3password"})
_WHO: Final = ("user_id", "username", "password", "user_domain_id", "user_domain_name")


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudsYaml:
    """A cloud by its name in a `clouds.yaml`."""

    name: str
    file: Path | None = None
    """None: where OpenStack's own tools look for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationCredential:
    """A credential that a user has made for us in a project: revocable, with that user's roles."""

    auth_url: str
    id: str
    secret: str = field(repr=False)
    region: str | None = None
    interface: str = "public"
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForProject:
    """The credentials that a project has handed to us, in the cloud that a `clouds.yaml` names."""

    at: CloudsYaml
    credential: Credential


Credentials = CloudsYaml | ApplicationCredential | ForProject


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The operator's choice of the credentials that a driver acts with."""

    at: CloudsYaml
    per_project: bool = False
    """With those of each node's project, and never with those of `at` itself."""


def read_credentials(section: Section) -> CloudsYaml:
    """Return the cloud that a driver's section names; the section notes where it names none."""
    name, file = section.text("cloud"), section.path("clouds_file")
    if file is not None and not file.is_file():
        section.wrong("clouds_file", f"= {str(file)!r}: there is no such file")
    return CloudsYaml(name=name, file=file)


def read_choice(section: Section) -> Choice:
    """Return whose credentials a driver acts with; what is wrong is noted as by `read_credentials`."""
    at, whose = read_credentials(section), section.text("credentials", OURS)
    if whose not in (OURS, PROJECTS):
        section.wrong(
            "credentials",
            f"is {whose!r}; it must be {OURS!r} (those that clouds.yaml has for the cloud) or"
            f" {PROJECTS!r} (those that each project has handed to Yaffle)",
        )
    return Choice(at=at, per_project=whose == PROJECTS)


def projects_clouds(drivers: Mapping[str, Mapping[str, object]]) -> Mapping[str, CloudsYaml]:
    """Return, by name, the clouds in which some driver acts for each project with its credentials."""
    found: dict[str, CloudsYaml] = {}
    for name, values in drivers.items():
        if values.get("credentials") == PROJECTS:
            section = Section(f"drivers.{quoted(name)}", values)
            at = read_credentials(section)
            section.check()
            if found.setdefault(at.name, at) != at:
                raise ConfigError(
                    f"two drivers look for cloud {at.name!r} in different clouds_file"
                )
    return found


def plugin_of(credential: ApplicationCredential) -> BaseAuthPlugin:
    """Return the authentication of an application credential; imports keystoneauth."""
    from keystoneauth1.identity import v3  # noqa: PLC0415 - slow, and only for who has a cloud

    return v3.ApplicationCredential(
        auth_url=credential.auth_url,
        application_credential_id=credential.id,
        application_credential_secret=credential.secret,
    )


def plugin_for(credential: Credential, config: Mapping[str, object]) -> BaseAuthPlugin:
    """Return the authentication of what a project has handed to us; imports keystoneauth.

    `config` is what clouds.yaml says of the cloud: where Keystone is, and for a trust who we are.
    Raises ConfigError where it does not say that.
    """
    given = config.get("auth")
    auth = given if isinstance(given, Mapping) else {}
    url = str(auth.get("auth_url") or "")
    if credential.kind is CredentialKind.APPLICATION_CREDENTIAL:
        return plugin_of(
            ApplicationCredential(auth_url=url, id=credential.reference, secret=credential.secret)
        )
    from keystoneauth1.identity import v3  # noqa: PLC0415 - slow, and only for who has a cloud

    who = {name: str(auth[name]) for name in _WHO if auth.get(name)}
    if str(config.get("auth_type") or "") not in _PASSWORD or "password" not in who:
        raise ConfigError(
            f"cloud {credential.cloud!r}: a trust is used by a service user with a password,"
            " and clouds.yaml has none for it"
        )
    # Without a scope of its own: the trust says in which project it acts.
    method = v3.PasswordMethod(**who)
    return v3.Auth(url, [method], trust_id=credential.reference)
