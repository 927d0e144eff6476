"""Plans an action on a node: its ladder, and the properties that each stage works with.

A node is given another profile in one action: the old copy is deleted under the old properties, the
new one made with the new. The node's row names the old profile until that has ended well, so that
whoever comes between (a successor, a deletion, a recovery after a failure) knows the copy that may
be there; only the stages that make or change a copy go by the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from yaffle.core.recovery.ladder import NodeActionKind, Rung, Stage, build, one_rung
from yaffle.core.recovery.node_actions import of_name
from yaffle.engine.action_inputs.policy_snapshot import PolicySnapshot, unpack
from yaffle.engine.detection.cluster_snapshot import in_place_names, policy_of
from yaffle.model.action import ActionKind
from yaffle.model.ids import ProfileId
from yaffle.model.operations import OperationKind
from yaffle.model.policy import RecoveryAction
from yaffle.model.properties import updatable
from yaffle.store import actions, catalog

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.operations import Target
    from yaffle.store.rows import ActionRow, NodeRow, ProfileRow

WORDS: Final[Mapping[NodeActionKind, str]] = MappingProxyType(
    {NodeActionKind.MAKE: "CREATE", NodeActionKind.REMOVE: "DELETE", NodeActionKind.CHECK: "CHECK"}
)
"""What the journal calls the one step of such an action."""
NEW_PROFILE: Final = "new_profile_id"
HOW: Final = "how"
"""Under this key a NODE_UPDATE's inputs say what was settled when it began: UPDATE or RECREATE."""
RECREATE: Final = "RECREATE"


def plan_of(ctx: EngineContext, action: ActionRow) -> tuple[PolicySnapshot, tuple[Rung, ...]]:
    """Return the policy snapshot and the ladder of an action; always the same for the same row."""
    kind = of_name(action.action).ladder
    if kind is None:
        snapshot = unpack(action.inputs.get("snapshot"))
        return snapshot, build(snapshot.recovery)
    timeout_s = _bound_s(ctx, action)
    snapshot = PolicySnapshot.without_policy(timeout_s)
    rung = RecoveryAction(name=WORDS.get(kind, ""), timeout_s=timeout_s)
    match kind:
        case NodeActionKind.OPERATE:
            rung = _operation(ctx, action, rung)
        case NodeActionKind.REPLACE if action.inputs.get(HOW) == OperationKind.UPDATE:
            kind, rung = NodeActionKind.OPERATE, replace(rung, name="UPDATE", in_place=True)
        case NodeActionKind.REPLACE:
            rung = replace(rung, name=RECREATE)
        case _:
            pass
    return snapshot, one_rung(kind, rung)


def _bound_s(ctx: EngineContext, action: ActionRow) -> float:
    """Its cluster may give it an hour; what hangs is known for hung by the operator's bound."""
    settings = ctx.settings
    in_place = action.inputs.get(HOW) == OperationKind.UPDATE
    return min(
        float(action.timeout_s), settings.update_timeout if in_place else settings.action_timeout
    )


def _operation(ctx: EngineContext, action: ActionRow, rung: RecoveryAction) -> RecoveryAction:
    name = str(action.inputs.get("operation", "")).upper()
    params = action.inputs.get("params")
    return replace(
        rung,
        name=name,
        params=dict(params) if isinstance(params, Mapping) else {},
        in_place=name in in_place_names(ctx),
    )


def informed(
    ctx: EngineContext, conn: Connection, action: ActionRow, node: NodeRow, snapshot: PolicySnapshot
) -> PolicySnapshot:
    """Let a check ask as the cluster's policy does, and an operation fence as it says.

    Neither changes the ladder, so that this may be read anew before each step.
    """
    if (
        action.action not in {ActionKind.NODE_CHECK, ActionKind.NODE_OPERATION}
        or node.cluster_id is None
    ):
        return snapshot
    policy, _ = policy_of(ctx, conn, node.cluster_id)
    return replace(
        snapshot,
        detection=policy.detection,
        recovery=replace(snapshot.recovery, fencing=policy.recovery.fencing),
    )


# --- another profile ---------------------------------------------------------------------------


IN_DOUBT: Final = "update_in_doubt"
"""Among a copy's attributes: the profile of an update in place that was begun and did not succeed.

The backend may have carried it out, or a part of it, and may do so yet, whatever the node's row says.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """The properties that a node is to have, and had."""

    old: Mapping[str, object]
    """Where it may have one of two, the one that differs from the new one, so that it is looked at."""
    new: Mapping[str, object]
    in_doubt: tuple[str, ...] = ()
    """Names of the properties that it may have already as they are to be."""


def new_profile_of(conn: Connection, action: ActionRow) -> ProfileRow | None:
    """Return the profile that a NODE_UPDATE brings; None for any other action."""
    ident = action.inputs.get(NEW_PROFILE)
    if action.action != ActionKind.NODE_UPDATE or not isinstance(ident, str):
        return None
    return catalog.profile(conn, ProfileId(ident))


def renewal_of(conn: Connection, action: ActionRow, target: Target) -> Renewal | None:
    """Return what a NODE_UPDATE changes; None for any other action."""
    profile = new_profile_of(conn, action)
    if profile is None:
        return None
    new, old = profile.spec, dict(target.spec)
    maybe = in_doubt(conn, target.attributes)
    doubtful: tuple[str, ...] = ()
    if maybe is not None:
        same = [key for key in {*old, *maybe.spec} if old.get(key) == new.get(key)]
        doubtful = tuple(sorted(key for key in same if maybe.spec.get(key) != new.get(key)))
        old |= {key: maybe.spec.get(key) for key in doubtful}
    return Renewal(old=MappingProxyType(old), new=MappingProxyType(dict(new)), in_doubt=doubtful)


def in_doubt(conn: Connection, attributes: Mapping[str, object]) -> ProfileRow | None:
    """Return the profile whose properties a copy may have instead of those of its row, if it is there."""
    ident = attributes.get(IN_DOUBT)
    return catalog.find_profile_row(conn, ProfileId(ident)) if isinstance(ident, str) else None


def settle(ctx: EngineContext, conn: Connection, action: ActionRow, now_us: int) -> None:
    """Write down, before the first step, how a NODE_UPDATE will go about it.

    Whoever takes it over, perhaps with other drivers, walks the same ladder.
    """
    profile = new_profile_of(conn, action)
    node = None if action.node_id is None else catalog.node(conn, action.node_id)
    if profile is None or node is None or HOW in action.inputs:
        return
    old = catalog.profile(conn, node.profile_id)
    how = OperationKind.UPDATE.value if _changeable(ctx, node, old, profile) else RECREATE
    actions.set_values(conn, action.id, now_us, inputs={**action.inputs, HOW: how})


def _changeable(ctx: EngineContext, node: NodeRow, old: ProfileRow, new: ProfileRow) -> bool:
    """Whether the copy that is there can be given the new properties."""
    if node.mark_reason is not None or not node.physical_id:
        return False  # what somebody marked is replaced by an update (seed 5)
    driver = ctx.drivers.profiles.get(old.type)
    if driver is None:
        return True  # that nobody here can tell is no reason to give the copy up
    offered = driver.operations.get(OperationKind.UPDATE)
    if offered is None or not offered.in_place:
        return False
    return updatable(driver.schema, old.spec, new.spec)


def aimed(
    target: Target, rung: RecoveryAction, stage: Stage, renewal: Renewal | None
) -> tuple[Target, RecoveryAction]:
    """Return what a stage works on: what makes or changes a copy goes by the new properties."""
    if renewal is None or stage not in {Stage.CREATE, Stage.ACT}:
        return target, rung
    renewed = replace(target, spec=renewal.new)
    if stage is Stage.ACT:
        params = {"old": dict(renewal.old), "in_doubt": list(renewal.in_doubt)}
        return renewed, replace(rung, params=params)
    return renewed, rung


def is_coming(conn: Connection, profile_id: str) -> bool:
    """Whether a node is about to be given this profile: its row does not name it yet."""
    under_way = actions.unfinished(conn, action=ActionKind.NODE_UPDATE)
    return any(action.inputs.get(NEW_PROFILE) == profile_id for action in under_way)
