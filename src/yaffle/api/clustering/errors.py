"""Error responses in Senlin's shape, and HTML where no route was reached.

    {"code": 404, "title": "Not Found", "explanation": "…",
     "error": {"code": 404, "message": "…", "type": "ResourceNotFound"}}

`error` has two more keys where there is something to say: `hint` (what to do next) and `problems`
(every fault of a document). The class of an error is its wire type.
"""

from __future__ import annotations

import math
from html import escape
from http import HTTPStatus
from typing import ClassVar, Final

from starlette.responses import HTMLResponse, Response

from yaffle.api.http.reply import Reply
from yaffle.errors import InvalidSpec, StaleEpoch, TooManyRequests, UserError, YaffleError

MESSAGE_MAX: Final = 8000
KNOWN: Final = YaffleError.__module__
PROBLEMS_MAX: Final = 200
WRONG: Final = (
    "The server could not comply with the request since it is either malformed or otherwise"
    " incorrect."
)
EXPLANATIONS: Final = {
    400: WRONG,
    403: "Access was denied to this resource.",
    404: "The resource could not be found.",
    406: WRONG,
    409: "There was a conflict when trying to complete your request.",
    500: "The server has either erred or is incapable of performing the requested operation.",
    503: "Something that the server needs is away; ask again in a moment.",
}
TYPES: Final = {
    "NotFound": "ResourceNotFound",
    "StaleEpoch": "InternalError",
    "TooManyRequests": "RequestLimitExceeded",
}


class HTTPBadRequest(UserError):
    """The request has not the shape that it must have."""


class RequestLimitExceeded(UserError):
    """The body is too large."""


class MethodVersionNotFound(UserError):
    """The route is there, but not in the version that was asked for."""


class InvalidGlobalAPIVersion(UserError):
    """Raised for a version that is not spoken here."""

    status: ClassVar[int] = 406


class PageFault(UserError):
    """Answered as a page: what went wrong before a route was found."""


class MalformedVersion(PageFault):
    """The version header cannot be read."""


class NoSuchPlace(PageFault):
    """Raised where no route has that path, or none with that method."""

    status: ClassVar[int] = 404


def answer(error: YaffleError) -> Response:
    """Return the refusal for an error."""
    if isinstance(error, PageFault):
        return page(error.status, str(error))
    headers = {"Retry-After": "1"} if error.status == HTTPStatus.SERVICE_UNAVAILABLE else {}
    if isinstance(error, TooManyRequests):
        headers["Retry-After"] = str(math.ceil(error.retry_after_s))
    return Reply(told(error), error.status, headers)


def told(error: YaffleError) -> dict[str, object]:
    """Return the body of a refusal."""
    kind = _kind(error)
    detail: dict[str, object] = {
        "code": error.status,
        "message": _message(error)[:MESSAGE_MAX],
        "type": TYPES.get(kind, kind),
    }
    if error.hint:
        detail["hint"] = error.hint
    if isinstance(error, InvalidSpec):
        detail["problems"] = [p[:MESSAGE_MAX] for p in error.problems[:PROBLEMS_MAX]]
    return _enveloped(error.status, detail)


def _kind(error: YaffleError) -> str:
    """Return the name of the nearest class that clients may know."""
    return next(cls.__name__ for cls in type(error).__mro__ if cls.__module__ in {KNOWN, __name__})


def _message(error: YaffleError) -> str:
    # An engine's inner affair; the log has it with its traceback.
    return EXPLANATIONS[500] if isinstance(error, StaleEpoch) else str(error)


def unexpected(request_id: str) -> Response:
    """Return what is said of our own mistakes."""
    message = f"something went wrong here; the log of the server knows {request_id}"
    return Reply(_enveloped(500, {"code": 500, "message": message, "type": "InternalError"}), 500)


def _enveloped(status: int, detail: dict[str, object]) -> dict[str, object]:
    title = HTTPStatus(status).phrase
    explanation = EXPLANATIONS.get(status, title)
    return {"code": status, "title": title, "explanation": explanation, "error": detail}


def page(status: int, detail: str = "", explanation: str = "") -> HTMLResponse:
    """Return a page as web frameworks make them; nobody parses it."""
    title = f"{status} {HTTPStatus(status).phrase}"
    said = explanation or EXPLANATIONS.get(status, "")
    text = (
        f"<html>\n <head>\n  <title>{title}</title>\n </head>\n <body>\n  <h1>{title}</h1>\n"
        f"  {escape(said)}<br /><br />\n{escape(detail)}\n\n\n </body>\n</html>"
    )
    return HTMLResponse(text, status)
