"""OpenStack clouds: bounded threads, deadlines, errors that say what is known.

Nothing of OpenStack's libraries is imported before the first call: they take a second to load, and
an engine without a cloud does not need them installed.
"""

from yaffle.integrations.openstack.client import Answer, Client, Identity
from yaffle.integrations.openstack.cloud import Cloud
from yaffle.integrations.openstack.credentials import (
    ApplicationCredential,
    Choice,
    CloudsYaml,
    Credentials,
    ForProject,
    read_choice,
    read_credentials,
)
from yaffle.integrations.openstack.faults import (
    CloudBusy,
    CloudUnavailable,
    CredentialMissing,
    CredentialRefused,
)
from yaffle.integrations.openstack.projects import Projects
from yaffle.integrations.openstack.read_only import LookedAt, lasting, looked_at

__all__ = [
    "Answer",
    "ApplicationCredential",
    "Choice",
    "Client",
    "Cloud",
    "CloudBusy",
    "CloudUnavailable",
    "CloudsYaml",
    "CredentialMissing",
    "CredentialRefused",
    "Credentials",
    "ForProject",
    "Identity",
    "LookedAt",
    "Projects",
    "lasting",
    "looked_at",
    "read_choice",
    "read_credentials",
]
