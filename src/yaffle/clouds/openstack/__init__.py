"""One way to speak with an OpenStack cloud: bounded threads, deadlines, errors that say what is known.

Nothing of OpenStack's libraries is imported before the first call: they take a second to load, and
an engine without a cloud does not need them installed.
"""

from yaffle.clouds.openstack.client import Answer, Client, Identity
from yaffle.clouds.openstack.cloud import Cloud
from yaffle.clouds.openstack.credentials import (
    ApplicationCredential,
    CloudsYaml,
    Credentials,
    read_credentials,
)
from yaffle.clouds.openstack.faults import CloudBusy, CloudUnavailable
from yaffle.clouds.openstack.looking import LookedAt, lasting, looked_at

__all__ = [
    "Answer",
    "ApplicationCredential",
    "Client",
    "Cloud",
    "CloudBusy",
    "CloudUnavailable",
    "CloudsYaml",
    "Credentials",
    "Identity",
    "LookedAt",
    "lasting",
    "looked_at",
    "read_credentials",
]
