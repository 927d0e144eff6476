"""Validates tokens by keystonemiddleware, the one file that imports it.

The middleware is made for WSGI and is not wrapped around anything here: it is shown an empty request
with the token, and what stands in for the application behind it keeps what it was told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from wsgiref.util import setup_testing_defaults

import structlog
from keystoneauth1 import access
from keystoneauth1.exceptions import ClientException
from keystonemiddleware.auth_token import AuthProtocol

from yaffle.errors import DependencyError

if TYPE_CHECKING:
    from yaffle.config import KeystoneSettings

log = structlog.get_logger()

AWAY = "Keystone cannot be asked who you are"
_TOLD = "keystone.token_info"


def fetcher(settings: KeystoneSettings, password: str) -> Callable[[str], access.AccessInfo | None]:
    """Return a call that takes a token and returns what it is worth, None for an invalid one.

    It blocks, and raises DependencyError while Keystone cannot tell.
    """
    protocol = AuthProtocol(_behind, _options(settings, password))

    def fetch(token: str) -> access.AccessInfo | None:
        environ: dict[str, Any] = {"HTTP_X_AUTH_TOKEN": token}
        setup_testing_defaults(environ)
        said: list[str] = []
        try:
            list(protocol(environ, lambda status, headers, error=None: said.append(status)))
        except ClientException as error:
            # A catalog without Keystone, an answer that makes no sense: not the token's fault.
            log.warning("keystone is away", error=f"{type(error).__name__}: {error}"[:300])
            raise DependencyError(AWAY) from None
        if said == [_FINE]:
            return access.create(body=environ[_TOLD], auth_token=token)
        if said[0].startswith("401"):
            return None
        log.warning("keystone is away", status=said[0])
        raise DependencyError(AWAY)

    return fetch


_FINE = "200 OK"


def _behind(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    """Stand where the application would: whoever comes here has a token that is valid."""
    start_response(_FINE, [])
    return []


def _options(settings: KeystoneSettings, password: str) -> dict[str, object]:
    options = {
        "auth_type": "password",
        "auth_url": settings.auth_url,
        "www_authenticate_uri": settings.www_authenticate_uri or settings.auth_url,
        "username": settings.username,
        "password": password,
        "project_name": settings.project_name,
        "user_domain_name": settings.user_domain_name,
        "project_domain_name": settings.project_domain_name,
        "region_name": settings.region_name,
        "interface": settings.interface,
        "cafile": str(settings.cafile) if settings.cafile else None,
        "http_connect_timeout": settings.timeout,
        "http_request_max_retries": 1,
        # We remember by ourselves: bounded, by digest, and never longer than a minute.
        "token_cache_time": -1,
        "service_token_roles_required": True,
    }
    return {key: value for key, value in options.items() if value is not None}
