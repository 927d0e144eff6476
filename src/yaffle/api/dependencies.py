"""Dependencies of routes: the caller, rate limits, and shared documentation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Depends, Path, Query
from starlette.requests import Request

from yaffle.api.middleware.access import WORD_MAX
from yaffle.api.rights import NOBODY
from yaffle.model.authz import Principal


class Caller:
    """The caller: the gate's word; where nobody has to prove it, what the body or a header says."""

    def __init__(self, request: Request) -> None:
        who = request.scope.get("yaffle.who")
        self._who = who if isinstance(who, Principal) else NOBODY
        self._proved = bool(request.scope.get("yaffle.user"))

    def who(self, said: str | None = None) -> Principal:
        """Return who it is; `said` is the body's word for a name."""
        return replace(self._who, user=said) if said and not self._proved else self._who

    def name(self, said: str | None = None) -> str:
        """Return the name that events carry."""
        return self.who(said).user


By = Annotated[Caller, Depends(Caller)]
Limit = Annotated[int, Query(ge=1, le=1000, description="At most so many.")]
NodeWord = Annotated[str | None, Query(max_length=WORD_MAX, description="Name or id of a node.")]
HostWord = Annotated[str | None, Query(max_length=WORD_MAX, description="Only this host's.")]
Word = Annotated[str, Path(max_length=WORD_MAX, description="Name, id, or the beginning of an id.")]


def answers(
    example: object, *, status: int = 200, text: str = "As asked."
) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of a route's good answer."""
    return {status: {"description": text, "content": {"application/json": {"example": example}}}}


def location(kind: str, ident: object) -> Mapping[str, str]:
    """Return the header that says where a new object is."""
    return {"Location": f"/yaffle/v1/{kind}/{ident}"}
