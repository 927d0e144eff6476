"""A cloud that is only looked at, and what stands between us and looking at it.

Its transport lets questions through and nothing else. So no driver, no policy and no person's
request can make it change anything: what would is never sent, whoever forgets what above it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NewType

from yaffle.errors import ConfigError, Forbidden, YaffleError
from yaffle.integrations.openstack.cloud import Cloud
from yaffle.integrations.openstack.faults import CloudUnavailable
from yaffle.integrations.openstack.request_policy import questions

if TYPE_CHECKING:
    from yaffle.integrations.openstack.credentials import Credentials
    from yaffle.ports.clock import Clock

_CONFIG: Final = frozenset({"ConfigException", "MissingRequiredOptions", "NoMatchingPlugin"})
_REFUSED: Final = frozenset({"Unauthorized"})
_NOWHERE: Final = frozenset({"EndpointNotFound", "EmptyCatalog", "CatalogException"})
"""Names of the libraries' exceptions, which are not imported before there is a cloud."""


LookedAt = NewType("LookedAt", Cloud)
"""A cloud that nothing but questions reaches; made by `looked_at` alone."""


def looked_at(credentials: Credentials, clock: Clock) -> LookedAt:
    """Return a cloud of which things can only be asked."""
    return LookedAt(Cloud(credentials, clock, passes=questions))


def lasting(error: YaffleError) -> YaffleError | None:
    """Return what a person has to mend before the cloud will answer; None where time may help."""
    if not isinstance(error, CloudUnavailable):
        return error
    for cause in _causes(error):
        names = {kind.__name__ for kind in type(cause).__mro__}
        if isinstance(cause, ImportError):
            return ConfigError(str(error), hint="pip install 'yaffle[openstack]'")
        if names & _CONFIG:
            return ConfigError(
                str(error),
                hint="it has to stand in ./clouds.yaml, ~/.config/openstack/clouds.yaml or the file"
                " that --clouds-file or OS_CLIENT_CONFIG_FILE names",
            )
        if names & _REFUSED:
            return Forbidden(
                f"Keystone refuses the credentials: {error}",
                hint="try them with `openstack --os-cloud NAME token issue`",
            )
        if names & _NOWHERE:
            return ConfigError(
                f"the cloud's catalog does not say where Nova is: {error}",
                hint="compare region_name and interface in clouds.yaml with `openstack catalog list`",
            )
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause = error.__cause__
    while cause is not None:
        yield cause
        cause = cause.__cause__
