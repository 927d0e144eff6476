"""Command context: time, drivers, the action queue, and the event that names who asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from yaffle.engine.runtime.context import LOCAL_PROCESS, how_to_have
from yaffle.errors import BadRequest, Forbidden, InvalidSpec, NotFound
from yaffle.model.authz import LOCAL
from yaffle.model.ids import ActionId, ClusterId, NodeId
from yaffle.store import actions, catalog, events

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.authz import Principal
    from yaffle.ports import Profile
    from yaffle.store.rows import ProfileRow

NAME_MAX = 255


class CommandContext:
    """Shared by the nouns; holds nothing but the kit."""

    def __init__(self, ctx: EngineContext) -> None:
        self.ctx = ctx

    def now(self) -> int:
        """Return the time (µs UTC)."""
        return self.ctx.clock.now_us()

    def changed(self) -> None:
        """Wake whoever carries out what was just written."""
        self.ctx.signals.changed()

    def driver(self, kind: str) -> Profile:
        """Return the driver of a profile type; raise Forbidden naming what would allow it.

        A type that is not installed at all raises InvalidSpec.
        """
        driver = self.ctx.drivers.profiles.get(kind)
        if driver is None:
            known = ", ".join(sorted(self.ctx.drivers.profiles)) or "none"
            if kind == LOCAL_PROCESS:
                raise Forbidden(
                    f"profile type {kind!r} is not available here; known: {known}"
                    f" (local processes are off: {how_to_have(kind)})"
                )
            raise InvalidSpec(f"type: profile type {kind!r} is not installed; known: {known}")
        return driver

    def job(
        self,
        conn: Connection,
        action: str,
        node_id: NodeId,
        cluster_id: ClusterId | None,
        by: str,
        now_us: int,
        *,
        locked: bool,
    ) -> ActionId:
        """Queue an action on a node: ready when it may hold the lock, waiting for it otherwise."""
        ident = ActionId(self.ctx.new_id())
        actions.add(
            conn,
            {
                "id": ident,
                "name": f"{action.lower()}_{node_id[:8]}",
                "action": action,
                "target": node_id,
                "cluster_id": cluster_id,
                "node_id": node_id,
                "lock_key": node_id if locked else None,
                "cause": "RPC Request",
                "status": actions.READY if locked else actions.WAITING,
                "inputs": {"by": by},
                "timeout_s": int(self.ctx.settings.action_timeout),
                "created_us": now_us,
            },
        )
        return ident

    def event(
        self,
        conn: Connection,
        otype: str,
        oid: str,
        oname: str,
        action: str,
        by: str | Principal,
        reason: str = "",
    ) -> None:
        """Record what was asked for, by whom and why."""
        who = asker(by)
        events.append(
            conn,
            events.Subject(
                otype=otype,
                oid=oid,
                oname=oname,
                node_id=oid if otype == "NODE" else None,
                cluster_id=oid if otype == "CLUSTER" else "",
                project=who.project,
                user=who.user,
                domain=who.domain,
            ),
            at_us=self.now(),
            action=action,
            status="start",
            reason=reason or f"requested by {who.user}",
            data={"by": who.user},
        )


def asker(by: str | Principal) -> Principal:
    """Return who asks; where only a name is known, within this process everything is allowed."""
    return replace(LOCAL, user=by) if isinstance(by, str) else by


def existing_profile(conn: Connection, ident: str, who: Principal) -> ProfileRow:
    """Return the profile that a body names; raise BadRequest, for it is the body that is wrong."""
    try:
        return catalog.find_profile(conn, ident, who.scope)
    except NotFound as error:
        raise BadRequest(
            f"The specified profile '{ident}' could not be found.", hint=error.hint
        ) from None


def named(name: str) -> str:
    """Return the name of a new object; raise InvalidSpec for one that no path or hand can carry."""
    # One that begins with a dash is an option to every command that it is pasted into.
    usable = name.isprintable() and name == name.strip() and "/" not in name and name[:1] != "-"
    if not (1 <= len(name) <= NAME_MAX and usable) or name in {".", ".."}:
        shown = repr(name[:NAME_MAX]).encode("ascii", "backslashreplace").decode()
        raise InvalidSpec(
            f"name: {shown} must have 1 to {NAME_MAX} printable characters, no slash, and no dash"
            " in front"
        )
    return name
