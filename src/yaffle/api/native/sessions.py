"""Sessions over HTTP: a password is exchanged for a token, and the token given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from yaffle.api import examples
from yaffle.api.dependencies import answers
from yaffle.api.http.reply import Reply
from yaffle.errors import BadRequest

if TYPE_CHECKING:
    from yaffle.api.auth.sessions import Sessions


def sessions() -> APIRouter:
    """Return the routes of sessions."""
    router = APIRouter(prefix="/sessions", tags=["service"])

    @router.post("", status_code=201, responses=answers({"session": examples.SESSION}, status=201))
    async def begin_session(request: Request) -> Response:
        """Exchange a name and password (HTTP basic) for a token: `Authorization: Bearer …`.

        It is worth what the password is worth, for `expires_in_s`, in the process that answered: another
        one answers 401, and begins a session for the password in turn.
        """
        known = _sessions(request)
        token = known.begin(request.scope["yaffle.known"])
        return Reply({"session": {"token": token, "expires_in_s": known.life_s}}, 201)

    @router.delete("", status_code=204)
    async def end_session(request: Request) -> Response:
        """End the session that this request came with."""
        _sessions(request).end(request.headers.get("authorization", ""))
        return Response(status_code=204)

    return router


def _sessions(request: Request) -> Sessions:
    found: Sessions | None = request.scope.get("yaffle.sessions")
    if found is None:
        raise BadRequest("there are no passwords here (server.users_file), and so no sessions")
    return found
