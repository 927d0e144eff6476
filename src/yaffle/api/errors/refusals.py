"""Error responses of the access middleware, in the shape of the API that was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from yaffle.api.errors.envelope import TYPES, refusal
from yaffle.api.errors.fault import fault
from yaffle.api.http.reply import Reply

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Scope

CLUSTERING: Final = "/v1"
INSTANCE_HA: Final = "/instance-ha"
UNKNOWN: Final = "The request you have made requires authentication."
"""As Keystone's middleware says it, which clients of the clustering API know."""


class Refused(Exception):
    """The gate stays shut."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        hint: str = "",
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.hint = hint
        self.headers = headers


def is_clustering(path: str) -> bool:
    """Whether a path belongs to the clustering API."""
    return path == CLUSTERING or path.startswith(f"{CLUSTERING}/")


def is_instance_ha(path: str) -> bool:
    """Whether a path belongs to the instance-HA API."""
    return path == INSTANCE_HA or path.startswith(f"{INSTANCE_HA}/")


def answer(scope: Scope, no: Refused) -> Response:
    """Return the refusal in the shape of the API that was asked."""
    path = str(scope["path"])
    told: Response
    if is_clustering(path):
        told = Reply(_clustering(no), no.status)
    elif is_instance_ha(path):
        told = Reply(_instance_ha(no), no.status)
    else:
        message = f"{no.message} {no.hint}".strip()
        request_id = str(scope.get("yaffle.request_id", ""))
        told = refusal(no.status, message, request_id=request_id)
    for name, value in (*no.headers, ("Connection", "close")):
        told.headers.append(name, value)
    return told


def _instance_ha(no: Refused) -> Mapping[str, object]:
    if no.status == HTTPStatus.UNAUTHORIZED:
        return _clustering(no)  # Keystone's middleware says it, whatever is behind it
    return fault(no.status, f"{no.message} {no.hint}".strip())


def _clustering(no: Refused) -> dict[str, object]:
    title = HTTPStatus(no.status).phrase
    if no.status == HTTPStatus.UNAUTHORIZED:
        return {"error": {"code": no.status, "title": title, "message": UNKNOWN}}
    detail: dict[str, object] = {
        "code": no.status,
        "message": no.message,
        "type": TYPES.get(no.status, "Error"),
    }
    if no.hint:
        detail["hint"] = no.hint
    return {"code": no.status, "title": title, "explanation": no.message, "error": detail}
