"""Senlin's objects as plain values, parsed from rows of its API with every fault named."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, assert_never

from yaffle.core.imports.dump import Row

IDENT: Final = re.compile(r"[0-9A-Za-z-]{1,36}")
NAME_MAX: Final = 255


class Kind(StrEnum):
    """Kind of an imported object; the value is the name of its list."""

    PROFILE = "profiles"
    POLICY = "policies"
    CLUSTER = "clusters"
    NODE = "nodes"
    BINDING = "cluster_policies"
    RECEIVER = "receivers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Fields that every object has."""

    id: str
    name: str
    project: str
    user: str
    domain: str
    created_us: int | None
    updated_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileItem:
    """A profile; `given` is its spec as its author wrote it."""

    origin: Origin
    type: str
    properties: Row
    given: Row
    metadata: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyItem:
    """A policy document."""

    origin: Origin
    type: str
    given: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterItem:
    """A cluster."""

    origin: Origin
    profile_id: str
    min_size: int
    max_size: int
    desired_capacity: int
    next_index: int
    timeout_s: int
    status: str
    status_reason: str
    metadata: Row
    config: Row
    dependents: Row
    made_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeItem:
    """A node with the backend's object that it stands for."""

    origin: Origin
    cluster_id: str
    profile_id: str
    physical_id: str
    index: int
    role: str
    status: str
    status_reason: str
    tainted: bool
    metadata: Row
    dependents: Row
    made_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingItem:
    """A policy attached to a cluster; its name is the cluster's and the policy's."""

    origin: Origin
    cluster_id: str
    policy_id: str
    enabled: bool
    priority: int | None
    last_op_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverItem:
    """A receiver."""

    origin: Origin
    type: str
    cluster_id: str
    action: str
    params: Row


Item = ProfileItem | PolicyItem | ClusterItem | NodeItem | BindingItem | ReceiverItem


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """An object that cannot be taken over as it is written."""

    id: str
    name: str
    problems: tuple[str, ...]


class _Reader:
    """Reads the values of one row; what is wrong gathers in `problems`."""

    def __init__(self, row: Row) -> None:
        self._row = row
        self.problems: list[str] = []

    def ident(self, key: str, *, needed: bool = True) -> str:
        """Return an id; empty where none is needed."""
        value = self._row.get(key)
        if value in (None, "") and not needed:
            return ""
        if isinstance(value, str) and IDENT.fullmatch(value):
            return value
        self.problems.append(f"{key}: {_short(value)} is no id")
        return ""

    def text(self, key: str, *, most: int = NAME_MAX) -> str:
        """Return a text, cut to `most` characters; empty for null."""
        value = self._row.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.problems.append(f"{key}: {_short(value)} is no text")
            return ""
        return value[:most]

    def name(self, key: str = "name") -> str:
        """Return a name that every hand and path can carry."""
        value = self.text(key)
        unfit = "/" in value or value != value.strip() or value.startswith("-")
        if not value or not value.isprintable() or unfit:
            self.problems.append(f"{key}: {_short(self._row.get(key))} is no usable name")
        return value

    def number(self, key: str, default: int, *, least: int) -> int:
        """Return a whole number; texts of digits are numbers too, as dump tools write them."""
        value = self._row.get(key)
        if value is None:
            return default
        if isinstance(value, str) and re.fullmatch(r"-?\d{1,9}", value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**31:
            self.problems.append(f"{key}: {_short(value)} is no whole number from {least} on")
            return default
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a boolean."""
        value = self._row.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.problems.append(f"{key}: {_short(value)} is neither true nor false")
            return default
        return value

    def table(self, key: str) -> Row:
        """Return an object; empty for null."""
        value = self._row.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.problems.append(f"{key}: {_short(value)} is no object")
            return {}
        return value

    def time(self, key: str) -> int | None:
        """Return a time (µs UTC); without a zone it is UTC, as Senlin writes it."""
        value = self._row.get(key)
        if value in (None, ""):
            return None
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.problems.append(f"{key}: {_short(value)} is no time")
            return None
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return round(zoned.timestamp() * 1_000_000)

    def origin(self, *, named: bool = True) -> Origin:
        """Return what every object has."""
        return Origin(
            id=self.ident("id"),
            name=self.name() if named else "",
            project=self.text("project"),
            user=self.text("user"),
            domain=self.text("domain"),
            created_us=self.time("init_at") or self.time("created_at"),
            updated_us=self.time("updated_at"),
        )


def read(kind: Kind, row: Row) -> Item | Unreadable:
    """Return the object in a row of the API's shape, or everything that is wrong with it."""
    reader = _Reader(row)
    item = _READ[kind](reader)
    if not reader.problems:
        return item
    return Unreadable(
        id=str(row.get("id") or "")[:36],
        name=str(row.get("name") or "")[:NAME_MAX],
        problems=tuple(reader.problems),
    )


def _profile(row: _Reader) -> ProfileItem:
    given = row.table("spec")
    properties = given.get("properties", {})
    if not isinstance(properties, Mapping):
        row.problems.append(f"spec.properties: {_short(properties)} is no object")
        properties = {}
    return ProfileItem(
        origin=row.origin(),
        type=_type(row, given),
        properties=properties,
        given=given,
        metadata=row.table("metadata"),
    )


def _policy(row: _Reader) -> PolicyItem:
    given = row.table("spec")
    return PolicyItem(origin=row.origin(), type=_type(row, given), given=given)


def _type(row: _Reader, spec: Row) -> str:
    """Return `os.nova.server-1.0`: from its own column, or put together from the spec."""
    kind = row.text("type")
    if kind or not spec:
        return kind
    return f"{spec.get('type', '')}-{spec.get('version', '')}"


def _cluster(row: _Reader) -> ClusterItem:
    return ClusterItem(
        origin=row.origin(),
        profile_id=row.ident("profile_id"),
        min_size=row.number("min_size", 0, least=0),
        max_size=row.number("max_size", -1, least=-1),
        desired_capacity=row.number("desired_capacity", 0, least=0),
        next_index=row.number("next_index", 1, least=1),
        timeout_s=row.number("timeout", 3600, least=0),
        status=row.text("status"),
        status_reason=row.text("status_reason", most=1000),
        metadata=row.table("metadata"),
        config=row.table("config"),
        dependents=row.table("dependents"),
        made_us=row.time("created_at"),
    )


def _node(row: _Reader) -> NodeItem:
    return NodeItem(
        origin=row.origin(),
        cluster_id=row.ident("cluster_id", needed=False),
        profile_id=row.ident("profile_id"),
        physical_id=row.text("physical_id"),
        index=row.number("index", -1, least=-1),
        role=row.text("role"),
        status=row.text("status"),
        status_reason=row.text("status_reason", most=1000),
        tainted=row.flag("tainted", default=False),
        metadata=row.table("metadata"),
        dependents=row.table("dependents"),
        made_us=row.time("created_at"),
    )


def _binding(row: _Reader) -> BindingItem:
    return BindingItem(
        origin=row.origin(named=False),
        cluster_id=row.ident("cluster_id"),
        policy_id=row.ident("policy_id"),
        enabled=row.flag("enabled", default=True),
        priority=row.number("priority", 500, least=0),
        last_op_us=row.time("last_op"),
    )


def _receiver(row: _Reader) -> ReceiverItem:
    return ReceiverItem(
        origin=row.origin(),
        type=row.text("type"),
        cluster_id=row.ident("cluster_id", needed=False),
        action=row.text("action"),
        params=row.table("params"),
    )


_READ: Final[Mapping[Kind, Callable[[_Reader], Item]]] = {
    Kind.PROFILE: _profile,
    Kind.POLICY: _policy,
    Kind.CLUSTER: _cluster,
    Kind.NODE: _node,
    Kind.BINDING: _binding,
    Kind.RECEIVER: _receiver,
}


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def ids(items: Sequence[Item]) -> frozenset[str]:
    """Return every id that the items are or name: what has to be looked up."""
    found: set[str] = set()
    for item in items:
        found.add(item.origin.id)
        match item:
            case ProfileItem() | PolicyItem():
                continue
            case ClusterItem():
                found.add(item.profile_id)
            case NodeItem():
                found |= {item.profile_id, item.cluster_id}
            case BindingItem():
                found |= {item.cluster_id, item.policy_id}
            case ReceiverItem():
                found.add(item.cluster_id)
            case _:
                assert_never(item)
    return frozenset(found - {""})
