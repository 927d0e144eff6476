"""Adopts a resource that exists already: inspect it, mark it as ours, store it.

The order survives a crash: the node's id follows from what is adopted, so that whoever finds it
marked as a node that nobody wrote down may write it down after all.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from yaffle.core.scaling import node_names
from yaffle.engine.commands.admin_guard import may_build
from yaffle.engine.commands.context import CommandContext, named
from yaffle.engine.commands.nodes import tell
from yaffle.engine.commands.tenancy import acts_in
from yaffle.engine.runtime.driver_call import Failure, call_driver
from yaffle.errors import (
    BadRequest,
    DependencyError,
    FeatureNotSupported,
    InvalidSpec,
    ResourceInUse,
)
from yaffle.model.action import ActionKind
from yaffle.model.authz import Right, need
from yaffle.model.health import NodeStatus
from yaffle.model.ids import NodeId, ProfileId
from yaffle.model.operations import Inspection, InspectionState, Target
from yaffle.model.properties import TypeName
from yaffle.ports import SupportsAdoption, SupportsProjects
from yaffle.store import catalog
from yaffle.store.rows import NodeRow, ProfileRow

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.model.authz import Principal
    from yaffle.ports import Profile

CALL_S: Final = 20.0
GRACE_S: Final = 1.0
HOME: Final = "project_id"
"""The attribute that says whose a thing is in its cloud."""


class Adoption:
    """Makes nodes of what is there."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._ctx = context.ctx

    async def node_preview(
        self,
        who: Principal,
        *,
        identity: str,
        kind: str,
        overrides: Mapping[str, object] | None = None,
        snapshot: bool | None = None,
    ) -> Mapping[str, object]:
        """Return type, version and properties of the profile that adopting would make."""
        need(who, Right.READ)
        seen = await self._inspected(who, kind, identity, overrides, snapshot=bool(snapshot))
        await self._free(kind, seen)
        name = TypeName.of(kind)
        return {"type": name.name, "version": name.version, "properties": dict(seen.properties)}

    async def node_adopt(
        self,
        who: Principal,
        *,
        identity: str,
        kind: str,
        name: str | None = None,
        role: str = "",
        metadata: Mapping[str, object] | None = None,
        overrides: Mapping[str, object] | None = None,
        snapshot: bool | None = None,
    ) -> NodeId:
        """Make a node, and a profile `prof-<name>`, of a running thing; return the node's id."""
        need(who, Right.WRITE)
        may_build(who, kind)
        called = (
            named(name) if name else node_names.render("", index=0, pick=self._ctx.rng.randrange)
        )
        seen = await self._inspected(who, kind, identity, overrides, snapshot=bool(snapshot))
        await self._free(kind, seen)
        target = Target(
            node_id=node_id_of(kind, seen.physical_id),
            name=called,
            physical_id=seen.physical_id,
            profile_type=kind,
            spec=MappingProxyType(dict(seen.properties)),
            project=who.project,
        )
        driver = self._adopting(kind)
        mine = await call_driver(
            lambda: driver.adopt(target, deadline_s=CALL_S),
            Inspection,
            within_s=CALL_S + GRACE_S,
            what=f"{kind} adopting {identity}",
        )
        taken = _usable(mine, kind, identity)
        words = {"role": role, "metadata": dict(metadata or {})}
        words["attributes"] = dict(taken.attributes or seen.attributes)
        await self._ctx.store.write(lambda conn: self._write(conn, who, target, words))
        self._context.changed()
        return target.node_id

    def _write(
        self, conn: Connection, who: Principal, target: Target, words: Mapping[str, object]
    ) -> None:
        """Insert the profile and the node."""
        _refuse_known(conn, target.node_id, target.profile_type, target.physical_id)
        now_us = self._context.now()
        owner = {"project": who.project, "user": who.user, "domain": who.domain}
        profile = {
            "id": ProfileId(self._ctx.new_id()),
            "name": f"prof-{target.name}"[: node_names.NAME_MAX],
            "type": target.profile_type,
            "spec": dict(target.spec),
            "created_us": now_us,
        }
        catalog.add(conn, ProfileRow, {**profile, **owner})
        node = {
            "id": target.node_id,
            "name": target.name,
            "profile_id": profile["id"],
            "physical_id": target.physical_id,
            "status": NodeStatus.ACTIVE.value,
            "status_reason": "Node adopted successfully",
            "init_us": now_us,
            "created_us": now_us,
            "made_us": now_us,
            **words,
        }
        catalog.add(conn, NodeRow, {**node, **owner})
        row = catalog.node(conn, target.node_id)
        assert row is not None  # noqa: S101 - inserted a line above
        tell(conn, who, row, ActionKind.NODE_CREATE, now_us, f"adopted by {who.user}")

    # --- the driver -----------------------------------------------------------------------------

    def _driver(self, kind: str) -> Profile:
        if kind not in self._ctx.drivers.profiles:
            try:
                self._context.driver(kind)  # says what would allow it, where something would
            except InvalidSpec as error:
                raise BadRequest(
                    f"The specified profile_type '{kind}' could not be found.", hint=str(error)
                ) from None
        return self._ctx.drivers.profiles[kind]

    def _adopting(self, kind: str) -> SupportsAdoption:
        driver = self._driver(kind)
        if not isinstance(driver, SupportsAdoption):
            raise FeatureNotSupported(
                f"Adopting nodes of profile type '{kind}' is not supported.",
                hint="create a node from a profile instead",
            )
        return driver

    async def _inspected(
        self,
        who: Principal,
        kind: str,
        identity: str,
        overrides: Mapping[str, object] | None,
        *,
        snapshot: bool,
    ) -> Inspection:
        """Return what is there, its properties validated; raise for anything that is no candidate."""
        driver = self._adopting(kind)
        answer = await call_driver(
            lambda: driver.inspect(
                identity,
                overrides=dict(overrides or {}),
                snapshot=snapshot,
                project=who.project,
                deadline_s=CALL_S,
            ),
            Inspection,
            within_s=CALL_S + GRACE_S,
            what=f"{kind} inspecting {identity}",
        )
        if isinstance(answer, Inspection):
            await self._theirs(who, driver, answer, identity)
        if isinstance(answer, Inspection) and _half_adopted(kind, answer):
            seen = answer
        else:
            seen = _usable(answer, kind, identity)
        properties = self._driver(kind).validate(dict(seen.properties))
        return Inspection(
            state=seen.state,
            detail=seen.detail,
            physical_id=seen.physical_id,
            properties=properties,
            attributes=seen.attributes,
        )

    async def _theirs(
        self, who: Principal, driver: SupportsAdoption, answer: Inspection, identity: str
    ) -> None:
        """Raise, as for what is not there, for a thing of a project that is not the asker's.

        A project that Keystone has told us is one of the cloud's own, and compared by its id. One of
        our own files is a word for people who share the credential: theirs is what is in its project.
        Only an administrator of ours who is in none of the cloud's takes what is anywhere in it.
        """
        home = answer.attributes.get(HOME)
        told = answer.state is InspectionState.FOUND or bool(answer.attributes)
        if not (isinstance(driver, SupportsProjects) and told) or (
            who.is_admin and not who.by_keystone
        ):
            return
        expected = who.project
        if not who.by_keystone:
            acts = await acts_in(driver)
            if acts.per_project:
                return  # seen with the credential of the asker's project, which shows no other's
            expected = acts.project
        if home != expected:
            raise _nowhere(identity)

    async def _free(self, kind: str, seen: Inspection) -> None:
        """Raise ResourceInUse for what is a node here already."""
        ident = node_id_of(kind, seen.physical_id)
        await self._ctx.store.read(lambda conn: _refuse_known(conn, ident, kind, seen.physical_id))


def node_id_of(kind: str, physical_id: str) -> NodeId:
    """Return the id that a thing has as a node: always the same, in the form of a random one."""
    digest = hashlib.sha256(f"{kind}\0{physical_id}".encode()).digest()
    return NodeId(str(uuid.UUID(bytes=digest[:16], version=4)))


def _half_adopted(kind: str, seen: Inspection) -> bool:
    """Whether the backend calls it ours but nobody came to write it down: then we may."""
    mine = node_id_of(kind, seen.physical_id)
    return seen.state is InspectionState.REFUSED and seen.owner == mine


def _usable(answer: Inspection | Failure, kind: str, identity: str) -> Inspection:
    if isinstance(answer, Failure):
        raise DependencyError(answer.why)
    match answer.state:
        case InspectionState.FOUND if answer.physical_id:
            return answer
        case InspectionState.ABSENT:
            raise _nowhere(identity)
        case InspectionState.REFUSED:
            raise FeatureNotSupported(
                f"'{identity}' cannot be adopted as a node of profile type '{kind}':"
                f" {answer.detail}"
            )
        case _:
            raise DependencyError(f"{kind} could not look at '{identity}': {answer.detail}")


def _nowhere(identity: str) -> BadRequest:
    return BadRequest(f"The specified physical resource '{identity}' could not be found.")


def _refuse_known(conn: Connection, ident: NodeId, kind: str, physical_id: str) -> None:
    """Raise ResourceInUse if a node has that copy, however it came by it."""
    known = catalog.node(conn, ident)
    found = known.id if known else catalog.node_of_copy(conn, kind, physical_id)
    if found is not None:
        raise ResourceInUse(f"'{physical_id}' is node '{found}' already.")
