"""The lab's own way to talk to its cloud: a page of code, and no second to import it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import httpx

from lab.openstack.errors import LabError
from lab.openstack.plan import Plan
from lab.openstack.templates import ADMIN_PASSWORD

CALL_S: Final = 60.0
NOVA_VERSION: Final = "2.90"
"""Before 2.95, where an evacuated server arrives stopped."""
_VERSIONS: Final = {"compute": NOVA_VERSION, "volume": "3.44"}
_PATHS: Final = {
    "identity": "/v3",
    "compute": "/v2.1",
    "image": "/v2",
    "network": "/v2.0",
    "workflow": "/v2",
    "volume": "/v3",
}


class Refused(LabError):
    """A service answered, and not with what was asked for."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """Calls every service of one lab as one user, whose token is renewed when it ends."""

    def __init__(
        self,
        plan: Plan,
        user: str = "admin",
        password: str = ADMIN_PASSWORD,
        project: str = "admin",
    ) -> None:
        self._plan = plan
        self._user = user
        self._password = password
        self._project = project
        self._http = httpx.Client(timeout=CALL_S, trust_env=False)
        self._token = ""

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def get(self, service: str, path: str) -> dict[str, Any]:
        """Read a document."""
        return self.call("GET", service, path)

    def call(
        self,
        method: str,
        service: str,
        path: str,
        body: Mapping[str, object] | bytes | str | None = None,
    ) -> dict[str, Any]:
        """Call a service by its catalog type; return the document, empty where there is none.

        Raises Refused for an answer of 400 or more, and LabError when there is no answer.
        """
        answer = self._send(method, service, path, body)
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            self._token = ""
            answer = self._send(method, service, path, body)
        if answer.is_error:
            told = f"{method} {answer.url}: {answer.status_code} {answer.text[:500]}"
            raise Refused(told, answer.status_code)
        found: dict[str, Any] = answer.json() if answer.content else {}
        return found

    def _send(
        self,
        method: str,
        service: str,
        path: str,
        body: Mapping[str, object] | bytes | str | None,
    ) -> httpx.Response:
        url = f"{self._plan.url(service)}{_PATHS.get(service, '')}{path}"
        headers = {"X-Auth-Token": self._token or self._log_in()}
        if version := _VERSIONS.get(service):
            headers["OpenStack-API-Version"] = f"{service} {version}"
        try:
            if isinstance(body, bytes | str):
                plain = isinstance(body, str)
                headers["Content-Type"] = "text/plain" if plain else "application/octet-stream"
                return self._http.request(method, url, headers=headers, content=body)
            return self._http.request(method, url, headers=headers, json=body)
        except httpx.TransportError as error:
            raise LabError(f"{method} {url}: no answer ({error!r})") from None

    def _log_in(self) -> str:
        domain = {"name": "Default"}
        user = {"name": self._user, "domain": domain, "password": self._password}
        identity = {"methods": ["password"], "password": {"user": user}}
        scope = {"project": {"name": self._project, "domain": domain}}
        try:
            answer = self._http.post(
                f"{self._plan.auth_url}/auth/tokens",
                json={"auth": {"identity": identity, "scope": scope}},
            )
        except httpx.TransportError as error:
            raise LabError(f"Keystone gives no answer ({error!r})") from None
        if answer.is_error:
            raise Refused(f"Keystone: {answer.status_code} {answer.text[:500]}", answer.status_code)
        self._token = answer.headers["X-Subject-Token"]
        return self._token

    def gone(self, service: str, path: str, within_s: float) -> bool:
        """Wait until a path is 404; say whether it came to that."""
        end_s = time.monotonic() + within_s
        while time.monotonic() < end_s:
            try:
                self.get(service, path)
            except Refused as refusal:
                if refusal.status == httpx.codes.NOT_FOUND:
                    return True
                raise
            time.sleep(0.2)
        return False
