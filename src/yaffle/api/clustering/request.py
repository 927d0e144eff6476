"""Request and answers of the clustering API as its routes see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from starlette.responses import Response

from yaffle.api.clustering.errors import HTTPBadRequest
from yaffle.api.http.reply import Reply

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.api.app_context import AppContext
    from yaffle.api.clustering.microversion import Microversion
    from yaffle.model.authz import Principal

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request: caller, version and parameters; the body has passed its schema."""

    parts: AppContext
    who: Principal
    version: Microversion
    root: str
    """`http://HOST:PORT`, as the client wrote it: every link begins with it."""
    caller: str
    """From where it comes: whose share of the server it uses."""
    path: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    body: Mapping[str, object] = field(default_factory=dict)
    """What the wrapper key holds; the whole body where there is none."""

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run a read on a consistent snapshot."""
        return await self.parts.queries.read(work)

    def text(self, name: str) -> str | None:
        """Return a key of the body that is text or absent."""
        value = self.body.get(name)
        return value if isinstance(value, str) else None

    def number(self, name: str) -> int | None:
        """Return a key of the body that is a whole number or absent."""
        value = self.body.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def flag(self, name: str) -> bool | None:
        """Return a key of the body that is true, false or absent."""
        value = self.body.get(name)
        return value if isinstance(value, bool) else None

    def mapping(self, name: str) -> Mapping[str, object] | None:
        """Return a key of the body that is an object or absent."""
        value = self.body.get(name)
        return value if isinstance(value, Mapping) else None

    def one(self, name: str) -> str | None:
        """Return a query parameter that may come once; of several the last counts."""
        values = self.query.get(name)
        return values[-1] if values else None

    def switch(self, name: str) -> bool:
        """Return a query parameter that is true or false; absent is false."""
        value = self.one(name)
        return False if value is None else truth(name, value)

    def gone(self) -> Response:
        """Return 204."""
        return Response(status_code=204)

    def accepted(self, action_id: str, content: object) -> Response:
        """Return 202 with the place of the action that does it."""
        return Reply(content, 202, {"Location": f"{self.root}/v1/actions/{action_id}"})


def truth(name: str, value: str) -> bool:
    """Return what `true` or `false` in any case says; raise HTTPBadRequest for another word."""
    word = value.lower()
    if word not in {"true", "false"}:
        raise HTTPBadRequest(f"Invalid value '{value[:100]}' specified for '{name}'")
    return word == "true"
