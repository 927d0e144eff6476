"""The objects of the contract as tables: key, and what its value may be; two keys of ours besides."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

Rule = Callable[[Any], bool]

UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
OURS: Final = {"health", "backend_status"}
"""Keys that nodes carry beyond the contract."""


def text(value: Any) -> bool:
    return isinstance(value, str)


def words(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def uuid(value: Any) -> bool:
    return isinstance(value, str) and bool(UUID.fullmatch(value))


def moment(value: Any) -> bool:
    return isinstance(value, str) and bool(TIME.fullmatch(value))


def integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def boolean(value: Any) -> bool:
    return isinstance(value, bool)


def mapping(value: Any) -> bool:
    return isinstance(value, dict)


def ids(value: Any) -> bool:
    return isinstance(value, list) and all(uuid(item) for item in value)


def null(value: Any) -> bool:
    return value is None


def maybe(rule: Rule) -> Rule:
    return lambda value: value is None or rule(value)


def one_of(*values: Any) -> Rule:
    return lambda value: value in values


OWNER: Final[dict[str, Rule]] = {
    "user": maybe(text),
    "project": maybe(text),
    "domain": maybe(text),
}
DATES: Final[dict[str, Rule]] = {"created_at": moment, "updated_at": maybe(moment)}

PROFILE: Final[dict[str, Rule]] = {
    **OWNER,
    **DATES,
    "id": uuid,
    "name": words,
    "type": words,
    "spec": mapping,
    "metadata": mapping,
}
STORED: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|\.000000)")


def stored(value: Any) -> bool:
    """A time of a policy, which Senlin reads back from its store in another form."""
    return isinstance(value, str) and bool(STORED.fullmatch(value))


POLICY: Final[dict[str, Rule]] = {
    **OWNER,
    "created_at": stored,
    "updated_at": maybe(stored),
    "id": uuid,
    "name": words,
    "type": words,
    "spec": mapping,
    "data": mapping,
}
CLUSTER_STATUS: Final = (
    *("INIT", "ACTIVE", "CREATING", "UPDATING", "RESIZING", "DELETING", "CHECKING"),
    *("RECOVERING", "CRITICAL", "ERROR", "WARNING", "OPERATING"),
)
NODE_STATUS: Final = [
    "INIT",
    "ACTIVE",
    "ERROR",
    "WARNING",
    "CREATING",
    "UPDATING",
    "DELETING",
    "RECOVERING",
    "OPERATING",
]
CLUSTER: Final[dict[str, Rule]] = {
    **OWNER,
    "id": uuid,
    "name": words,
    "profile_id": uuid,
    "profile_name": words,
    "init_at": moment,
    "created_at": maybe(moment),
    "updated_at": maybe(moment),
    "min_size": integer,
    "max_size": integer,
    "desired_capacity": integer,
    "timeout": integer,
    "status": one_of(*CLUSTER_STATUS),
    "status_reason": words,
    "metadata": mapping,
    "data": mapping,
    "dependents": mapping,
    "config": mapping,
    "nodes": ids,
    "policies": ids,
}
NODE: Final[dict[str, Rule]] = {
    **OWNER,
    "id": uuid,
    "name": words,
    "cluster_id": text,
    "physical_id": maybe(text),
    "profile_id": uuid,
    "profile_name": words,
    "index": integer,
    "role": maybe(text),
    "init_at": moment,
    "created_at": maybe(moment),
    "updated_at": maybe(moment),
    "status": one_of(*NODE_STATUS),
    "status_reason": words,
    "data": mapping,
    "metadata": mapping,
    "dependents": mapping,
    "tainted": boolean,
}
BINDING: Final[dict[str, Rule]] = {
    "id": uuid,
    "cluster_id": uuid,
    "cluster_name": words,
    "policy_id": uuid,
    "policy_name": words,
    "policy_type": words,
    "enabled": boolean,
    "priority": integer,
    "data": maybe(mapping),
    "last_op": maybe(text),
}
RECEIVER: Final[dict[str, Rule]] = {
    **OWNER,
    **DATES,
    "id": uuid,
    "name": words,
    "type": one_of("webhook", "message"),
    "cluster_id": maybe(uuid),
    "actor": mapping,
    "action": maybe(words),
    "params": mapping,
    "channel": mapping,
}
ACTION_STATUS: Final = (
    *("INIT", "WAITING", "READY", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"),
    *("WAITING_LIFECYCLE_COMPLETION", "SUSPENDED"),
)
ACTION: Final[dict[str, Rule]] = {
    "id": uuid,
    "name": words,
    "action": lambda value: bool(re.fullmatch(r"(CLUSTER|NODE)_[A-Z_]+", value)),
    "target": uuid,
    "cluster_id": text,
    "cause": one_of(
        "RPC Request", "Derived Action", "Derived Action with Lifecycle Hook", "Health Policy"
    ),
    "owner": maybe(text),
    "interval": integer,
    "start_time": maybe(number),
    "end_time": maybe(number),
    "timeout": integer,
    "status": one_of(*ACTION_STATUS),
    "status_reason": maybe(text),
    "inputs": mapping,
    "outputs": mapping,
    "depends_on": ids,
    "depended_by": ids,
    "created_at": moment,
    "updated_at": maybe(moment),
    "data": mapping,
    "user": maybe(text),
    "project": maybe(text),
}
EVENT: Final[dict[str, Rule]] = {
    "id": uuid,
    "timestamp": lambda value: bool(
        re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|\+00:00)", value)
    ),
    "oid": maybe(text),
    "oname": maybe(text),
    "otype": one_of("CLUSTER", "NODE"),
    "cluster_id": maybe(text),
    "level": one_of("CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG"),
    "user": maybe(text),
    "project": maybe(text),
    "action": maybe(text),
    "status": maybe(text),
    "status_reason": maybe(text),
    "meta_data": mapping,
}
SERVICE: Final[dict[str, Rule]] = {
    "id": words,
    "binary": one_of("senlin-engine", "senlin-conductor", "senlin-health-manager"),
    "host": words,
    "topic": text,
    "status": one_of("enabled", "disabled"),
    "state": one_of("up", "down"),
    "disabled_reason": maybe(text),
    "updated_at": lambda value: bool(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", value)),
}


def check(found: Any, shape: Mapping[str, Rule], *, more: frozenset[str] = frozenset()) -> None:
    """The object has the keys of the shape, the two of ours and `more`, and values that fit."""
    assert isinstance(found, dict), found
    missing = set(shape) - set(found)
    extra = set(found) - set(shape) - OURS - more
    wrong = {
        key: found[key] for key, rule in shape.items() if key in found and not rule(found[key])
    }
    faults = (missing, extra, wrong)
    assert not any(faults), f"{missing=} {extra=} {wrong=} in {found}"
