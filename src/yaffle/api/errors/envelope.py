"""Every refusal in one shape: `{"error": {code, title, type, message, problems, request_id}}`.

The class of an error decides its status (`errors.py`); nothing of our inside leaves with a 500.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

import structlog
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from yaffle.api.clustering.errors import unexpected
from yaffle.api.errors.fault import fault
from yaffle.api.http.reply import Reply
from yaffle.api.masking import masked_path
from yaffle.errors import InvalidSpec, StaleEpoch, YaffleError

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

log = structlog.get_logger()

PROBLEMS_MAX = 200
MESSAGE_MAX = 8000
TYPES: Mapping[int, str] = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "RequestTimeout",
    409: "Conflict",
    413: "BodyTooLarge",
    415: "UnsupportedMediaType",
    421: "UnknownHost",
    429: "TooManyRequests",
    500: "InternalError",
    503: "Unavailable",
}


def refusal(
    status: int,
    message: str,
    *,
    request_id: str,
    kind: str = "",
    problems: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the answer that says what is wrong and, where it can be mended, how."""
    return Reply(
        {
            "error": {
                "code": status,
                "title": HTTPStatus(status).phrase,
                "type": kind or TYPES.get(status, "Error"),
                "message": message[:MESSAGE_MAX],
                "problems": [p[:MESSAGE_MAX] for p in problems[:PROBLEMS_MAX]],
                "request_id": request_id,
            }
        },
        status_code=status,
        headers=dict(headers or {}),
    )


def install(app: FastAPI) -> None:
    """Answer every error of the application in our shape."""
    app.add_exception_handler(YaffleError, _told)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


async def _told(request: Request, error: Exception) -> Response:
    assert isinstance(error, YaffleError)  # noqa: S101 - installed for it
    if isinstance(error, StaleEpoch):
        return await _unexpected(request, error)
    status = error.status
    return refusal(
        status,
        f"{error} {error.hint}".strip(),
        request_id=_request_id(request),
        kind=type(error).__name__,
        problems=error.problems if isinstance(error, InvalidSpec) else (),
        headers={"Retry-After": "1"} if status == HTTPStatus.SERVICE_UNAVAILABLE else None,
    )


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - installed for it
    problems = [_problem(one) for one in error.errors()[:PROBLEMS_MAX]]
    return refusal(
        400,
        "\n".join(problems),
        request_id=_request_id(request),
        kind="InvalidSpec",
        problems=problems,
    )


def _problem(fault: Mapping[str, object]) -> str:
    """Return `size: Input should be a valid integer`, the place first."""
    place = fault.get("loc")
    parts = [str(p) for p in place] if isinstance(place, (tuple, list)) else []
    where, inner = (parts[0], parts[1:]) if parts else ("body", [])
    if fault.get("type") == "json_invalid":
        context = fault.get("ctx")
        why = context.get("error", "") if isinstance(context, Mapping) else ""
        return f"body: it is no JSON: {why} (character {', '.join(inner)})"
    name = ".".join(inner)[:200] or where
    text = str(fault.get("msg", "is wrong")).removeprefix("Value error, ")
    if fault.get("type") == "extra_forbidden":
        text = "unknown key; remove it or mend its spelling"
    return f"{name}: {text}"


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - installed for it
    messages = {
        404: f"there is nothing at {request.url.path}; GET /yaffle/v1 lists what there is",
        405: f"{request.method} is not possible at {request.url.path}",
    }
    status = error.status_code
    headers = dict(error.headers or {})
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(sorted(_allowed(request)))
    return refusal(
        status,
        messages.get(status, str(error.detail)),
        request_id=_request_id(request),
        headers=headers,
    )


def _allowed(request: Request) -> set[str]:
    """Return every method of the path; the framework names only those of the first route it met."""
    return {
        method
        for route in request.app.routes
        if route.matches(request.scope)[0] is not Match.NONE
        for method in getattr(route, "methods", None) or ()
    }


async def _unexpected(request: Request, error: Exception) -> Response:
    ident = _request_id(request)
    log.error("request failed", request=ident, path=masked_path(request.url.path), exc_info=error)
    said = f"something went wrong here; the log of the server knows {ident}"
    if request.url.path.startswith("/v1/"):
        return unexpected(ident)
    if request.url.path.startswith("/instance-ha/"):
        return Reply(fault(500, said), 500)
    return refusal(500, said, request_id=ident)


def _request_id(request: Request) -> str:
    return str(request.scope.get("yaffle.request_id", ""))
