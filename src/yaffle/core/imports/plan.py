"""Plans an import: each object is to be created, is here already, differs, or is refused.

Nothing is made anew: ids, physical ids, indexes and sizes stay what they were, because clients and
clouds hold them. What was under way when it was read cannot be known here, so it becomes ERROR with
that reason; what was being deleted is refused, for to watch it would mean to bring it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeVar, assert_never

from yaffle.core.imports.dump import Row
from yaffle.core.imports.items import (
    BindingItem,
    ClusterItem,
    Item,
    Kind,
    NodeItem,
    Origin,
    PolicyItem,
    ProfileItem,
    ReceiverItem,
    Unreadable,
)
from yaffle.core.imports.planned import Judge, Outcome, Planned, Present
from yaffle.core.receiver_actions import ACTIONS, faults
from yaffle.errors import Forbidden, InvalidSpec
from yaffle.model.authz import DEFAULT_PROJECT

SETTLED: Final = frozenset({"ACTIVE", "ERROR", "WARNING"})
CLUSTER_SETTLED: Final = SETTLED | {"CRITICAL"}
UNKNOWN_TYPE: Final = "UNKNOWN"
T = TypeVar("T")


class _Refused(Exception):
    def __init__(self, *reasons: str) -> None:
        super().__init__(*reasons)
        self.reasons = reasons


SAME: Final[Mapping[Kind, tuple[str, ...]]] = MappingProxyType(
    {
        Kind.PROFILE: ("name", "type", "spec"),
        Kind.POLICY: ("name", "type", "spec"),
        Kind.CLUSTER: ("name", "profile_id", "min_size", "max_size", "desired_capacity"),
        Kind.NODE: ("name", "cluster_id", "profile_id", "physical_id", "index", "role"),
        Kind.BINDING: ("enabled",),
        Kind.RECEIVER: ("name", "cluster_id", "action", "params"),
    }
)
"""By which columns an object that is here is the same; state that lives on is none of them."""


class Planner:
    """Plans one object after the other; each may refer to those before it."""

    def __init__(
        self, present: Present, judge: Judge, *, now_us: int, project: str | None = None
    ) -> None:
        self._rows = dict(present.rows)
        self._holders = dict(present.holders)
        self._bound = dict(present.bound)
        self._judge = judge
        self._now_us = now_us
        self._project = project

    def plan(self, kind: Kind, item: Item | Unreadable) -> Planned:
        """Return what becomes of `item`; later objects may refer to it if it is created."""
        if isinstance(item, Unreadable):
            return Planned(
                kind=kind,
                id=item.id,
                name=item.name,
                outcome=Outcome.REFUSE,
                reasons=item.problems,
            )
        here = self._here(item)
        notes: list[str] = []
        try:
            row = self._row(item, notes)
        except _Refused as no:
            outcome = Outcome.REFUSE if here is None else Outcome.DIFFERENT
            return self._said(kind, item, outcome, reasons=no.reasons)
        if here is None:
            self._remember(kind, row)
            return self._said(kind, item, Outcome.CREATE, notes=notes, row=row)
        unlike = tuple(_differences(kind, here, row))
        outcome = Outcome.DIFFERENT if unlike else Outcome.PRESENT
        return self._said(kind, item, outcome, reasons=unlike)

    def _said(
        self,
        kind: Kind,
        item: Item,
        outcome: Outcome,
        *,
        reasons: Sequence[str] = (),
        notes: Sequence[str] = (),
        row: Row | None = None,
    ) -> Planned:
        return Planned(
            kind=kind,
            id=item.origin.id,
            name=self._name(item),
            outcome=outcome,
            reasons=tuple(reasons),
            notes=tuple(notes),
            row=row or {},
        )

    def _name(self, item: Item) -> str:
        if not isinstance(item, BindingItem):
            return item.origin.name
        cluster = self._rows.get((Kind.CLUSTER, item.cluster_id), {})
        policy = self._rows.get((Kind.POLICY, item.policy_id), {})
        return f"{cluster.get('name', item.cluster_id)}: {policy.get('name', item.policy_id)}"

    def _here(self, item: Item) -> Row | None:
        if isinstance(item, BindingItem):
            return self._bound.get((item.cluster_id, item.policy_id))
        return self._rows.get((_KINDS[type(item)], item.origin.id))

    def _remember(self, kind: Kind, row: Row) -> None:
        self._rows[kind, str(row["id"])] = row
        if kind is Kind.BINDING:
            self._bound[str(row["cluster_id"]), str(row["policy_id"])] = row
        physical = str(row.get("physical_id") or "")
        if kind is Kind.NODE and physical:
            self._holders[physical] = (*self._holders.get(physical, ()), str(row["id"]))

    def _row(self, item: Item, notes: list[str]) -> dict[str, object]:
        match item:
            case ProfileItem():
                return self._profile(item)
            case PolicyItem():
                return self._policy(item, notes)
            case ClusterItem():
                return self._cluster(item, notes)
            case NodeItem():
                return self._node(item, notes)
            case BindingItem():
                return self._binding(item)
            case ReceiverItem():
                return self._receiver(item, notes)
            case _:
                assert_never(item)

    def _profile(self, item: ProfileItem) -> dict[str, object]:
        spec = _judged(lambda: self._judge.profile(item))
        return {
            **self._owned(item.origin),
            "type": item.type,
            "spec": dict(spec),
            "given": dict(item.given),
            "metadata": dict(item.metadata),
        }

    def _policy(self, item: PolicyItem, notes: list[str]) -> dict[str, object]:
        document = _judged(lambda: self._judge.policy(item))
        notes += [f"warning: {warning}" for warning in document.warnings]
        return {
            **self._owned(item.origin),
            "type": document.type,
            "spec": dict(document.spec),
            "given": dict(item.given),
            "source": "",
            "warnings": list(document.warnings),
        }

    def _cluster(self, item: ClusterItem, notes: list[str]) -> dict[str, object]:
        self._needed(Kind.PROFILE, item.profile_id, "profile")
        if item.status == "DELETING":
            raise _Refused("it was being deleted; let that end, or import it once it has failed")
        if item.max_size >= 0 and not item.min_size <= item.desired_capacity <= item.max_size:
            notes.append(
                f"desired capacity {item.desired_capacity} is not within"
                f" {item.min_size} and {item.max_size}; resize it"
            )
        status, reason = _settled(item.status, item.status_reason, CLUSTER_SETTLED, notes)
        if item.dependents:
            notes.append("its dependents are not kept")
        return {
            **self._owned(item.origin),
            "profile_id": item.profile_id,
            "desired_capacity": item.desired_capacity,
            "min_size": item.min_size,
            "max_size": item.max_size,
            "next_index": item.next_index,
            "timeout_s": item.timeout_s,
            "status": status,
            "status_reason": reason,
            "metadata": dict(item.metadata),
            "config": dict(item.config),
            "init_us": self._created(item.origin),
            "made_us": item.made_us,
        }

    def _node(self, item: NodeItem, notes: list[str]) -> dict[str, object]:
        profile = self._needed(Kind.PROFILE, item.profile_id, "profile")
        if item.status == "DELETING":
            raise _Refused("it was being deleted: to watch it would mean to bring it back")
        if item.cluster_id:
            self._fits_cluster(self._needed(Kind.CLUSTER, item.cluster_id, "cluster"), profile)
        self._alone(item)
        status, reason = _settled(item.status, item.status_reason, SETTLED, notes)
        if not item.physical_id:
            notes.append("it has no physical id: nothing stands behind it")
        if item.dependents:
            notes.append("its dependents are not kept")
        return {
            **self._owned(item.origin),
            "cluster_id": item.cluster_id or None,
            "index": item.index if item.cluster_id else -1,
            "role": item.role,
            "profile_id": item.profile_id,
            "physical_id": item.physical_id,
            "status": status,
            "status_reason": reason,
            "tainted": item.tainted,
            "metadata": dict(item.metadata),
            "init_us": self._created(item.origin),
            "made_us": item.made_us,
            # A full grace, as for a node that has just been made: we know nothing of it yet.
            "grace_us": self._now_us,
        }

    def _fits_cluster(self, cluster: Row, profile: Row) -> None:
        theirs = self._rows.get((Kind.PROFILE, str(cluster["profile_id"])), {})
        if theirs and theirs["type"] != profile["type"]:
            raise _Refused(
                f"its profile's type {profile['type']} is not its cluster's, {theirs['type']}"
            )

    def _alone(self, item: NodeItem) -> None:
        """Refuse a second node for one server: two would heal it against each other."""
        others = [n for n in self._holders.get(item.physical_id, ()) if n != item.origin.id]
        if item.physical_id and others:
            raise _Refused(f"node {others[0]} stands for {item.physical_id} already")

    def _binding(self, item: BindingItem) -> dict[str, object]:
        cluster = self._needed(Kind.CLUSTER, item.cluster_id, "cluster")
        policy = self._needed(Kind.POLICY, item.policy_id, "policy")
        kind = str(policy["type"])
        self._only_one(item, kind)
        profile = self._rows.get((Kind.PROFILE, str(cluster["profile_id"])), {})
        spec = policy["spec"]
        assert isinstance(spec, Mapping)  # noqa: S101 - of the store's own table, or made here
        unfit = self._judge.binding(kind, spec, str(profile.get("type", UNKNOWN_TYPE)))
        if unfit:
            raise _Refused(*unfit)
        row: dict[str, object] = {
            "id": item.origin.id,
            "cluster_id": item.cluster_id,
            "policy_id": item.policy_id,
            "policy_type": kind,
            "enabled": item.enabled,
            "last_op_us": item.last_op_us,
            "created_us": self._created(item.origin),
        }
        return row if item.priority is None else {**row, "priority": item.priority}

    def _only_one(self, item: BindingItem, kind: str) -> None:
        family = kind.rpartition("-")[0]
        if not self._judge.is_singleton(family):
            return
        for (cluster_id, policy_id), row in self._bound.items():
            same = cluster_id == item.cluster_id and policy_id != item.policy_id
            if same and str(row["policy_type"]).rpartition("-")[0] == family:
                raise _Refused(f"the cluster has a policy of type {family} already: {policy_id}")

    def _receiver(self, item: ReceiverItem, notes: list[str]) -> dict[str, object]:
        if item.type != "webhook":
            raise _Refused(f"type {item.type!r}: only webhooks exist here")
        cluster = self._needed(Kind.CLUSTER, item.cluster_id, "cluster")
        if item.action not in ACTIONS:
            raise _Refused(f"action {item.action!r} cannot be started by a receiver")
        takes = ACTIONS[item.action].takes
        params = {key: value for key, value in item.params.items() if key in takes}
        wrong = tuple(faults(item.action, params))
        if wrong:
            raise _Refused(*wrong)
        left_out = sorted(item.params.keys() - params.keys())
        if left_out:
            notes.append(f"parameters that {item.action} does not take: {', '.join(left_out)}")
        return {
            **self._owned(item.origin),
            "type": item.type,
            "cluster_id": item.cluster_id,
            "action": item.action,
            "params": params,
            # It acts for the project that its cluster belongs to, and for no other.
            "project": cluster["project"],
        }

    def _needed(self, kind: Kind, ident: str, word: str) -> Row:
        found = self._rows.get((kind, ident))
        if found is None:
            shown = ident or "(none)"
            raise _Refused(f"its {word} {shown} is not here: not imported, or refused")
        return found

    def _owned(self, origin: Origin) -> dict[str, object]:
        return {
            "id": origin.id,
            "name": origin.name,
            "project": self._project or origin.project or DEFAULT_PROJECT,
            "user": origin.user,
            "domain": origin.domain,
            "created_us": self._created(origin),
            "updated_us": origin.updated_us,
        }

    def _created(self, origin: Origin) -> int:
        return self._now_us if origin.created_us is None else origin.created_us


_KINDS: Final[Mapping[type[Item], Kind]] = MappingProxyType(
    {
        ProfileItem: Kind.PROFILE,
        PolicyItem: Kind.POLICY,
        ClusterItem: Kind.CLUSTER,
        NodeItem: Kind.NODE,
        BindingItem: Kind.BINDING,
        ReceiverItem: Kind.RECEIVER,
    }
)


def _judged(ask: Callable[[], T]) -> T:
    try:
        return ask()
    except InvalidSpec as error:
        raise _Refused(*error.problems) from None
    except Forbidden as error:
        raise _Refused(str(error)) from None


def _settled(status: str, reason: str, settled: Iterable[str], notes: list[str]) -> tuple[str, str]:
    """Return status and reason; whatever was under way has no end that anybody here could see."""
    if status in settled:
        return status, reason
    notes.append(f"{status or 'no status'} becomes ERROR: how that ended is unknown")
    return "ERROR", f"it was {status or 'without a status'} when it was imported; check it"


def _differences(kind: Kind, here: Row, row: Row) -> Iterator[str]:
    for column in SAME[kind]:
        if here.get(column) != row.get(column):
            yield f"{column} is {_shown(here.get(column))} here, {_shown(row.get(column))} there"


def _shown(value: object) -> str:
    if isinstance(value, (Mapping, list)):
        return "another" if value else "empty"
    return "none" if value in (None, "") else str(value)
