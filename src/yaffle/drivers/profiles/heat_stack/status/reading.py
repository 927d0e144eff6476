"""Reading of many stacks: one list says it of most, and their members of the rest.

    one list of all stacks        who is gone, busy, failed; who has changed since the last look
    members of what has changed   and of the others now and then
    one list of all servers       as the census of `integrations/openstack/servers` keeps it
    a second look                 at each stack that seems to be down, before that is said

A stack is never called down on the word of two moments: while Heat replaces a server, an older list
of members names one that Nova does not know any more. So what seems to be down is looked at again,
by itself, and is unclear where it was changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.heat_stack.status.member_cache import Known, Print, Roster, prints
from yaffle.drivers.profiles.heat_stack.status.member_status import (
    asks_members,
    gone,
    newest_copy,
    reading_of,
    unclear,
)
from yaffle.drivers.profiles.heat_stack.status.members import (
    GONE,
    Member,
    Seen,
    is_server,
    judged,
    seen_of,
)
from yaffle.errors import YaffleError
from yaffle.integrations.openstack import CloudUnavailable
from yaffle.integrations.openstack.servers.status_mapping import lock_of, words_of

if TYPE_CHECKING:
    from yaffle.drivers.profiles.heat_stack.api.documents import Resource, Stack
    from yaffle.drivers.profiles.heat_stack.api.heat import Heat
    from yaffle.integrations.openstack.servers.queries import Servers
    from yaffle.integrations.openstack.servers.server_cache import ServerCache
    from yaffle.model.operations import Reading, Target

PROJECT: Final = "project_id"
SHOWN_MAX: Final = 25
"""Servers, or missing stacks, that are asked for one by one in a single reading."""
_LEFT_MIN_S: Final = 0.3
_SHARE: Final = 0.5
"""Of the time may be spent on members that have not changed as far as Heat tells."""


def foreign(attributes: Mapping[str, object], project: str) -> str:
    """Say why "not found" would prove nothing of this node; empty where it would."""
    home = attributes.get(PROJECT)
    if not project:
        return "our credentials are of no project"
    if home in (None, "", project):
        return ""
    return f"it lives in project {home}, and our credentials are for project {project}"


class Reader:
    """One reading of some nodes, in one thread."""

    def __init__(
        self,
        heat: Heat,
        servers: Servers,
        census: ServerCache,
        roster: Roster,
        *,
        now_s: Callable[[], float],
        again_s: float,
    ) -> None:
        self._heat = heat
        self._servers = servers
        self._census = census
        self._roster = roster
        self._now_s = now_s
        self._again_s = again_s
        self._shown = 0

    def read(self, targets: Sequence[Target]) -> list[Reading]:
        """Return one reading per target, in order; a cloud that does not answer makes all unclear."""
        if not targets:
            return []
        try:
            project = self._heat.client.project_id
            alone = len(targets) == 1 and bool(targets[0].physical_id)
            stacks = None if alone else self._heat.every()
        except YaffleError as error:
            return [unclear(target, str(error)) for target in targets]
        if stacks is None:
            return [self._guarded(targets[0], lambda: self._alone(targets[0], project))]
        return self._many(targets, stacks, project)

    # --- one ------------------------------------------------------------------------------------

    def _alone(self, target: Target, project: str) -> Reading:
        if why := foreign(target.attributes, project):
            return unclear(target, why)
        return self._fresh(target)

    def _fresh(self, target: Target, mark: Print | None = None) -> Reading:
        """Read one node with nothing but fresh answers; `mark`: how Heat's list showed its stack."""
        ident = target.physical_id
        stack = self._heat.show(ident)
        if stack is None:
            return gone(target, f"Heat knows no stack {ident}")
        if not asks_members(stack):
            return reading_of(stack, (), target)
        resources = self._heat.resources(stack)
        if mark is not None:
            self._note(ident, mark, resources)
        found = reading_of(stack, judged(resources, self._ask_nova(resources)), target)
        if found.up is not False:
            return found
        after = self._heat.show(ident)
        if after is None or (after.status, after.updated) != (stack.status, stack.updated):
            return unclear(target, f"it has just been changed: {after.words if after else 'gone'}")
        return found

    def members(self, stack: Stack) -> list[Member]:
        """Return the members of a stack, as they are now."""
        resources = self._heat.resources(stack)
        return judged(resources, self._ask_nova(resources))

    def locked(self, stack: Stack) -> str:
        """Say which server of a stack is locked; empty where none is. Raises why that is not told."""
        wanted = [r.physical_id for r in self._heat.resources(stack) if is_server(r)]
        if len(wanted) > SHOWN_MAX:
            listed = self._census.take(self._servers).servers
            found = [listed.get(ident or "") for ident in wanted]
        else:
            found = [self._servers.show(ident or "") for ident in wanted]
        servers = [server for server in found if server is not None]
        if hidden := next((s for s in servers if s.status == "UNKNOWN"), None):
            raise CloudUnavailable(f"server {hidden.id}: {words_of(hidden)}", sent=False)
        return next((why for server in servers if (why := lock_of(server))), "")

    def _ask_nova(self, resources: Iterable[Resource]) -> dict[str, Seen]:
        wanted = [r.physical_id for r in resources if is_server(r) and r.physical_id]
        if len(wanted) > SHOWN_MAX:
            return self._listed(wanted)
        return {ident: self._one_server(ident) for ident in wanted}

    def _one_server(self, ident: str) -> Seen:
        try:
            server = self._servers.show(ident)
        except YaffleError as error:
            return Seen(up=None, words=f"server {ident}: {error}", asked=False)
        return seen_of(server) if server is not None else GONE

    def _listed(self, wanted: Sequence[str]) -> dict[str, Seen]:
        """Return what the list of all servers says of some, and Nova itself of those it lacks."""
        try:
            servers = self._census.take(self._servers).servers
        except YaffleError as error:
            return {
                ident: Seen(up=None, words=f"server {ident}: {error}", asked=False)
                for ident in wanted
            }
        found: dict[str, Seen] = {}
        for ident in wanted:
            if ident in servers:
                found[ident] = seen_of(servers[ident])
            elif self._may_ask():
                self._shown += 1
                found[ident] = self._one_server(ident)
            else:
                words = f"server {ident}: missing in the list, and not yet asked for by itself"
                found[ident] = Seen(up=None, words=words, asked=False)
        return found

    def _may_ask(self) -> bool:
        return self._shown < SHOWN_MAX and self._heat.client.left_s() > _LEFT_MIN_S

    # --- many -----------------------------------------------------------------------------------

    def _many(
        self, targets: Sequence[Target], stacks: Sequence[Stack], project: str
    ) -> list[Reading]:
        by_id = {stack.id: stack for stack in stacks}
        marks = prints(stacks)
        self._roster.keep(marks)
        looked = [by_id[t.physical_id] for t in targets if t.physical_id in by_id]
        known = self._rosters([s for s in looked if asks_members(s)], marks)
        wanted = [
            resource.physical_id
            for several in known.values()
            for resource in several
            if is_server(resource) and resource.physical_id
        ]
        servers = self._listed(wanted) if wanted else {}
        found = [self._first_look(t, by_id, known, servers, project) for t in targets]
        # Those first that were looked at longest ago: where time is short, each has its turn.
        order = sorted(
            (place for place, reading in enumerate(found) if reading.up is False),
            key=lambda place: self._age(targets[place].physical_id, marks),
            reverse=True,
        )
        for place in order:
            if targets[place].physical_id in by_id:
                found[place] = self._second_look(targets[place], marks)
        return found

    def _first_look(
        self,
        target: Target,
        by_id: Mapping[str, Stack],
        known: Mapping[str, Sequence[Resource]],
        servers: Mapping[str, Seen],
        project: str,
    ) -> Reading:
        ident = target.physical_id
        if why := foreign(target.attributes, project):
            return unclear(target, why)
        stack = by_id.get(ident)
        if stack is None:
            return self._guarded(target, lambda: self._missing(target, by_id.values(), project))
        if not asks_members(stack):
            return reading_of(stack, (), target)
        if ident not in known:
            return unclear(target, f"its members have not been asked for yet; {stack.words}")
        return reading_of(stack, judged(known[ident], servers), target)

    def _missing(self, target: Target, stacks: Iterable[Stack], project: str) -> Reading:
        """Read a node whose copy, if it had one, is not in the list; another may bear its mark."""
        copy = None if target.physical_id else newest_copy(target, stacks)
        if not target.physical_id and copy is None:
            return gone(target, "no stack bears the mark of this node")
        if not self._may_ask():
            return unclear(target, "missing in the list, and not yet asked for by itself")
        self._shown += 1
        return self._alone(replace(target, physical_id=copy.id) if copy else target, project)

    def _second_look(self, target: Target, marks: Mapping[str, Print]) -> Reading:
        """Look again, at one stack, with nothing but fresh answers."""
        if self._heat.client.left_s() <= _LEFT_MIN_S:
            return unclear(target, "it seems to be down; there was no time for a second look")
        mark = marks[target.physical_id]
        return self._guarded(target, lambda: self._fresh(target, mark))

    # --- members of many ------------------------------------------------------------------------

    def _rosters(
        self, stacks: Sequence[Stack], marks: Mapping[str, Print]
    ) -> dict[str, Sequence[Resource]]:
        """Return the members of each stack: those that have changed first, the oldest next."""
        found: dict[str, Sequence[Resource]] = {}
        began_s = self._heat.client.left_s()
        for stack in sorted(stacks, key=lambda s: self._age(s.id, marks), reverse=True):
            known = self._roster.of(stack.id, marks[stack.id])
            left_s = self._heat.client.left_s()
            if known is not None:
                found[stack.id] = known.resources
                if self._now_s() - known.at_s < self._again_s or left_s < began_s * _SHARE:
                    continue
            if left_s <= _LEFT_MIN_S:
                continue
            try:
                found[stack.id] = self._heat.resources(stack)
            except YaffleError:
                # What was known of it may have been wiped out meanwhile.
                found.pop(stack.id, None)
                continue
            self._note(stack.id, marks[stack.id], found[stack.id])
        return found

    def _age(self, ident: str, marks: Mapping[str, Print]) -> float:
        known = self._roster.of(ident, marks[ident]) if ident in marks else None
        return self._now_s() - known.at_s if known is not None else float("inf")

    def _note(self, ident: str, mark: Print, resources: Sequence[Resource]) -> None:
        known = Known(mark=mark, at_s=self._now_s(), resources=resources)
        self._roster.note(ident, known)

    @staticmethod
    def _guarded(target: Target, look: Callable[[], Reading]) -> Reading:
        try:
            return look()
        except YaffleError as error:
            return unclear(target, str(error))
