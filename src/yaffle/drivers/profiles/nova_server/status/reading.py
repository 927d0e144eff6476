"""Reading of many servers: the list says it of most, and one request each of the rest.

That a list lacks a server is no proof that it is gone: only Nova's own "not found" for its very id
is, asked by somebody who may see the project that it was in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.nova_server.tracking.operation import stranger
from yaffle.drivers.profiles.nova_server.tracking.stuck_tasks import at_work
from yaffle.errors import YaffleError
from yaffle.integrations.openstack.servers.documents import Listed
from yaffle.integrations.openstack.servers.status_mapping import GONE, lock_of, row_of, words_of
from yaffle.model.operations import Reading

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.nova import Nova
    from yaffle.integrations.openstack.servers.server_cache import ServerCache, Snapshot
    from yaffle.integrations.openstack.servers.stuck_tasks import Stuck, Tasks
    from yaffle.model.operations import Target

SHOWN_MAX: Final = 25
"""Missing servers that are asked for one by one in a single reading; the rest stays unclear."""
PROJECT: Final = "project_id"
_LEFT_MIN_S: Final = 0.3
EMPTY: Final[Mapping[str, object]] = MappingProxyType({})


def read(
    nova: Nova,
    census: ServerCache,
    tasks: Tasks,
    targets: Sequence[Target],
    *,
    all_projects: bool,
    where: Mapping[str, object] = EMPTY,
) -> list[Reading]:
    """Return one reading per target, in order; a cloud that does not answer makes all unclear.

    `where` says in which cloud a server is: its host may have the name of another cloud's.
    """
    if not targets:
        return []
    try:
        project = None if all_projects else nova.client.project_id
        if len(targets) == 1 and targets[0].physical_id:
            snapshot = None
        else:
            # Who asks about one is about to act upon it.
            nodes = [target.node_id for target in targets] if len(targets) > 1 else ()
            snapshot = census.take(nova, nodes=nodes)
    except YaffleError as error:
        return [unclear(target, str(error)) for target in targets]
    return _Reader(nova, census, tasks, snapshot, project, where).read(targets)


def unclear(target: Target, why: str) -> Reading:
    """Return the reading of what could not be asked."""
    return Reading(
        exists=True,
        up=None,
        backend_status="unclear",
        detail=why,
        physical_id=target.physical_id,
        asked=False,
    )


def foreign(attributes: Mapping[str, object], project: str | None) -> str:
    """Say why "not found" would prove nothing of this node; empty where it would.

    `project`: that of our credentials; None where they show those of all.
    """
    home = attributes.get(PROJECT)
    if project == "":
        return "our credentials are of no project"
    if project is None or home in (None, "", project):
        return ""
    return f"it lives in project {home}, and our credentials are for project {project}"


def project_of(target: Target, nova: Nova) -> str:
    """Return the project in which copies of a node are, or would be; empty where nobody tells."""
    return str(target.attributes.get(PROJECT) or nova.client.project_id or "")


class _Reader:
    def __init__(
        self,
        nova: Nova,
        census: ServerCache,
        tasks: Tasks,
        snapshot: Snapshot | None,
        project: str | None,
        where: Mapping[str, object],
    ) -> None:
        self._where = where
        self._nova = nova
        self._census = census
        self._tasks = tasks
        self._snapshot = snapshot
        self._project = project
        self._shown = 0
        self._no_list: YaffleError | None = None
        """Why there is no list that is fresh."""

    def read(self, targets: Sequence[Target]) -> list[Reading]:
        return [self._one(target) for target in targets]

    def _one(self, target: Target) -> Reading:
        try:
            return self._known(target)
        except YaffleError as error:
            return unclear(target, str(error))

    def _known(self, target: Target) -> Reading:
        ident = target.physical_id
        if why := foreign(target.attributes, self._project):
            return unclear(target, why)
        if self._snapshot is not None and ident in self._snapshot.servers:
            return self._listed(self._snapshot, ident, target)
        if ident:
            if not self._may_ask():
                return unclear(target, "missing in the list, and not yet asked for by itself")
            self._shown += 1
            server = self._nova.show(ident)
            if server is not None:
                return self._of(server, target)
        return self._absent(target)

    def _may_ask(self) -> bool:
        return self._shown < SHOWN_MAX and self._nova.client.left_s() >= _LEFT_MIN_S

    def _listed(self, snapshot: Snapshot, ident: str, target: Target) -> Reading:
        """Return what a list says, which is as old as that."""
        age_us = round(snapshot.age_s * 1_000_000)
        return self._of(snapshot.servers[ident], target, age_us=age_us)

    def _of(self, server: Listed, target: Target, *, age_us: int = 0) -> Reading:
        """Return what a server says of its node, whose task may move no more."""
        stuck = self._tasks.stuck(server)
        # In one piece: of thousands of readings each copy costs as much as the reading.
        stands = stands_on(server, self._where) if server.id == target.physical_id else None
        found = reading_of(server, target, stuck, attributes=stands, age_us=age_us)
        if not found.stuck or stuck is None or not stuck.may_work:
            return found
        if not self._may_ask():
            return replace(
                found, stuck=False, detail=f"{found.detail}; who is at it is not asked yet"
            )
        self._shown += 1
        if work := at_work(self._nova, server.id, stuck):
            return replace(found, stuck=False, detail=f"{found.detail}; {work}")
        return found

    def _absent(self, target: Target) -> Reading:
        """Read a node whose copy, if it had one, Nova does not know; another one may bear its mark.

        A request for it may have been given up and have made one all the same: so a list that came late
        does not say it.
        """
        snapshot = self._fresh()
        copies = snapshot.copies_of(target.node_id, project_of(target, self._nova))
        if copies:
            return self._listed(snapshot, copies[-1].id, target)
        detail = (
            f"Nova knows no server {target.physical_id}"
            if target.physical_id
            else "no server bears the mark of this node"
        )
        return Reading(
            exists=GONE.exists,
            up=GONE.up,
            backend_status="gone",
            detail=detail,
            physical_id=target.physical_id,
            event=GONE.event,
            age_us=round(snapshot.age_s * 1_000_000),
        )

    def _fresh(self) -> Snapshot:
        """Return a list that is not late; raises why there is none, and asks for it only once."""
        if self._no_list is not None:
            raise self._no_list
        if self._snapshot is None or self._snapshot.late:
            late = self._snapshot is not None
            try:
                # The readings of all others wait for it: no longer than their asker does.
                self._snapshot = self._census.take(self._nova, changes=late)
            except YaffleError as error:
                self._no_list = error
                raise
        return self._snapshot


def stands_on(server: Listed, where: Mapping[str, object]) -> Mapping[str, object] | None:
    """Return what may change of a server while it runs; None where we may not see its host."""
    if not server.host:
        return None
    zone = {"availability_zone": server.zone} if server.zone else {}
    return {"host": server.host, **zone, **where}


def reading_of(
    server: Listed,
    target: Target,
    stuck: Stuck | None = None,
    *,
    attributes: Mapping[str, object] | None = None,
    age_us: int = 0,
) -> Reading:
    """Return what a server says of its node; `stuck`: what is being done to it moves no more."""
    row = row_of(server)
    why = stranger(server, target)
    # What Nova says has failed or is off is so whatever somebody wants to do to it.
    stuck = stuck if row.up is None and not why else None
    return Reading(
        exists=row.exists,
        # Another node's copy says nothing of this one.
        up=None if why else row.up,
        backend_status=row.word or server.status,
        detail=f"{why or (stuck.why if stuck else row.why)} ({words_of(server)})",
        physical_id=server.id,
        event="" if why else row.event,
        stuck=stuck is not None,
        attributes=attributes,
        kept="" if why else lock_of(server),
        age_us=age_us,
    )
