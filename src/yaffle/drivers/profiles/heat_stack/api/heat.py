"""Heat's API in our words: one method per request; a stack is named by name and id, so that
nothing is redirected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from yaffle.drivers.profiles.heat_stack.api.documents import (
    Detail,
    DetailDocument,
    Event,
    Events,
    MadeDocument,
    Resource,
    Resources,
    Stack,
    StackPage,
)
from yaffle.integrations.openstack import Answer, Client, CloudUnavailable

ORCHESTRATION: Final = "orchestration"
DEPTH: Final = 5
"""How deep stacks in stacks are looked into: Heat's own bound, unless an operator has raised it."""
PAGE: Final = 1000
PAGES_MAX: Final = 100
NESTED_MAX: Final = 200
"""Nested stacks of a deleted one whose records are read."""
_LIST: Final = {"show_nested": "true", "show_hidden": "true"}


class Heat:
    """Requests of one call to Heat; raises as `Client` does. Used in one thread, then thrown away."""

    def __init__(self, client: Client) -> None:
        self.client = client

    # --- reading --------------------------------------------------------------------------------

    def every(self) -> list[Stack]:
        """Return all stacks of the project, nested ones included: one request for a thousand."""
        found: list[Stack] = []
        for _ in range(PAGES_MAX):
            query: dict[str, str | int] = {"limit": PAGE, **_LIST}
            query |= {"marker": found[-1].id} if found else {}
            page = self._page(query)
            found += page.stacks
            if not page.more or not page.stacks:
                return found
        raise CloudUnavailable(f"more than {PAGES_MAX} pages of stacks", sent=True)

    def show(self, ident: str) -> Stack | None:
        """Return the stack with that id, also a deleted one; None when Heat has no record of it."""
        query: dict[str, str | int] = {"id": ident, "show_deleted": "true", **_LIST}
        found = [stack for stack in self._page(query).stacks if stack.id == ident]
        return found[0] if found else None

    def named(self, name: str) -> list[Stack]:
        """Return the stacks with that name that are not deleted: one or none."""
        found = self._page({"name": name, "show_hidden": "true"}).stacks
        return [stack for stack in found if stack.name == name and not stack.gone]

    def tagged(self, tag: str) -> list[Stack]:
        """Return the stacks with that tag that are not deleted."""
        found = self._page({"tags": tag, "show_hidden": "true"}).stacks
        return [stack for stack in found if tag in (stack.tags or ()) and not stack.gone]

    def nested_in(self, ident: str) -> list[Stack]:
        """Return the stacks that are or were nested in one, and in those; NESTED_MAX at most."""
        found: list[Stack] = []
        asked = [ident]
        while asked:
            query: dict[str, str | int] = {"owner_id": asked.pop(), "show_deleted": "true", **_LIST}
            inner = self._page(query).stacks
            found += inner
            asked += [stack.id for stack in inner]
            if len(found) > NESTED_MAX:
                raise CloudUnavailable(f"more than {NESTED_MAX} stacks in {ident}", sent=True)
        return found

    def resources(self, stack: Stack) -> list[Resource]:
        """Return its members and those of stacks in it; NotFound where it has just been deleted."""
        answer = self._get(f"{_path(stack)}/resources", {"nested_depth": DEPTH})
        return answer.parsed(Resources).resources

    def events(self, stack: Stack, *, newest: int = 0) -> list[Event]:
        """Return what happened to it, without stacks in it; the newest first if so many are named."""
        query: dict[str, str | int] = {"limit": newest, "sort_dir": "desc"} if newest else {}
        return self._get(f"{_path(stack)}/events", query).parsed(Events).events

    def detail(self, stack: Stack) -> Detail:
        """Return what it was made with, and its outputs."""
        return self._get(_path(stack)).parsed(DetailDocument).stack

    def part(self, stack: Stack, what: str) -> dict[str, object]:
        """Return its `template`, `environment` or `files`."""
        return self._get(f"{_path(stack)}/{what}").parsed(dict[str, object])

    def preview(self, body: Mapping[str, object], *, instead_of: Stack | None = None) -> None:
        """Have a new stack, or an update of one, validated; nothing is made. BadRequest if invalid."""
        method, path = ("PUT", _path(instead_of)) if instead_of else ("POST", "/stacks")
        self.client.act(method, ORCHESTRATION, f"{path}/preview", body=dict(body))

    # --- acting ---------------------------------------------------------------------------------

    def create(self, body: Mapping[str, object], *, trace: str | None) -> str:
        """Ask for a stack; return its id. Conflict where its name is taken."""
        answer = self.client.act("POST", ORCHESTRATION, "/stacks", body=dict(body), trace=trace)
        return answer.parsed(MadeDocument).stack.id

    def replace(self, stack: Stack, body: Mapping[str, object], *, trace: str | None) -> None:
        """Give it another template, and what belongs to that."""
        self.client.act("PUT", ORCHESTRATION, _path(stack), body=dict(body), trace=trace)

    def update(self, stack: Stack, body: Mapping[str, object], *, trace: str | None = None) -> None:
        """Update it with what it is made of already, but for what `body` names."""
        self.client.act("PATCH", ORCHESTRATION, _path(stack), body=dict(body), trace=trace)

    def delete(self, stack: Stack, *, trace: str | None) -> None:
        """Ask for its deletion."""
        self.client.act("DELETE", ORCHESTRATION, _path(stack), trace=trace)

    def mark(self, resource: Resource, *, unhealthy: bool, reason: str) -> None:
        """Tell Heat of a member, in the very stack that it is in (seed 5)."""
        path = f"/stacks/{resource.stack}/resources/{quote(resource.name, safe='')}"
        body = {"mark_unhealthy": unhealthy, "resource_status_reason": reason}
        self.client.act("PATCH", ORCHESTRATION, path, body=body)

    def _page(self, query: Mapping[str, str | int]) -> StackPage:
        return self._get("/stacks", query).parsed(StackPage)

    def _get(self, path: str, query: Mapping[str, str | int] | None = None) -> Answer:
        return self.client.get(ORCHESTRATION, path, query=query)


def _path(stack: Stack) -> str:
    return f"/stacks/{quote(stack.name, safe='')}/{stack.id}"
