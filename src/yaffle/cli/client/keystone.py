"""Sign-in by Keystone, and its catalog's address of Yaffle: a cloud of clouds.yaml."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final, TypeVar

import httpx

from yaffle.errors import ConfigError, DependencyError

if TYPE_CHECKING:
    from keystoneauth1.session import Session

T = TypeVar("T")

SERVICE: Final = "clustering"
"""Yaffle's service type in a catalog, as openstacksdk looks for it (OpenStack's service-types)."""
ANSWER_S: Final = 30.0
SERVER_FAULT: Final = 500


class KeystoneAuth(httpx.Auth):
    """Signs requests with a token of the cloud's, which keystoneauth renews before it ends."""

    def __init__(self, cloud: str) -> None:
        """Read `cloud` in clouds.yaml; raise ConfigError where there is no such cloud."""
        self._cloud = cloud
        self._session, self._interface, self._region = _session(cloud)

    def endpoint(self) -> str | None:
        """Return Yaffle's address by the cloud's catalog; None where that does not have it."""
        found = self._asked(
            lambda: self._session.get_endpoint(
                service_type=SERVICE, interface=self._interface, region_name=self._region
            )
        )
        return str(found).rstrip("/").removesuffix("/v1") if found else None

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send with the token."""
        request.headers["X-Auth-Token"] = str(self._asked(self._session.get_token) or "")
        yield request

    def _asked(self, ask: Callable[[], T]) -> T:
        from keystoneauth1.exceptions import ClientException, ConnectFailure, HttpError

        try:
            return ask()
        except HttpError as error:
            if error.http_status >= SERVER_FAULT:
                raise DependencyError(f"Keystone of cloud {self._cloud} fails: {error}") from None
            raise ConfigError(
                f"--os-cloud {self._cloud}: its Keystone does not let you in: {error}"
            ) from None
        except ConnectFailure as error:
            raise DependencyError(f"Keystone of cloud {self._cloud} is away: {error}") from None
        except ClientException as error:
            raise ConfigError(f"--os-cloud {self._cloud}: {error}") from None


def _session(cloud: str) -> tuple[Session, str, str | None]:
    try:
        with warnings.catch_warnings():
            # It warns of parts of itself.
            warnings.simplefilter("ignore")
            from openstack.config import OpenStackConfig
            from openstack.exceptions import ConfigException
    except ImportError:
        raise DependencyError(
            "--os-cloud needs openstacksdk: install yaffle with its extra `openstack`"
        ) from None
    try:
        region = OpenStackConfig().get_one(cloud)
        session = region.get_session()
    except ConfigException as error:
        raise ConfigError(f"--os-cloud {cloud}: {error}") from None
    session.timeout = ANSWER_S
    return session, str(region.get_interface(SERVICE) or "public"), region.get_region_name() or None
