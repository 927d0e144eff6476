"""The policy of a watch: the operator's own or a usual one, and whatever it says, it only observes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from yaffle.errors import InvalidSpec
from yaffle.model.policy import HealthPolicy, RecoveryMode

if TYPE_CHECKING:
    from yaffle.policy import ParsedPolicy

VERSION: Final = "1.3"
INTERVAL_S: Final = 15.0
FALL: Final = 3
HOSTS: Final = {"type": "HYPERVISOR_STATUS_POLLING"}
POLLS: Final = {"type": "NODE_STATUS_POLLING"}
LISTENS: Final = {"type": "LIFECYCLE_EVENTS"}
"""Without a broker everything is asked for, and of what is down also who wanted that."""


def usual(interval_s: float = INTERVAL_S, *, hosts: bool = False) -> dict[str, object]:
    """Return the document of a careful operator; with `hosts` where these may be seen."""
    return {
        "type": "senlin.policy.health",
        "version": VERSION,
        "properties": {
            "detection": {
                "interval": interval_s,
                "node_update_timeout": interval_s * FALL,
                "fall": FALL,
                "rise": 2,
                "recovery_conditional": "ANY_FAILED",
                "detection_modes": [POLLS, LISTENS, *([HOSTS] if hosts else [])],
            },
            "recovery": {
                "fencing": ["COMPUTE"],
                "actions": [
                    {"name": "REBOOT", "params": {"type": "HARD"}},
                    {"name": "REBUILD"},
                    {"name": "RECREATE"},
                ],
            },
        },
    }


def read(file: str) -> dict[str, object]:
    """Return the document in a file; raise ConfigError and InvalidSpec."""
    from yaffle.cli.documents import plain, read_document

    source, text = read_document(file)
    found = plain(source, text)
    if not isinstance(found, dict):
        raise InvalidSpec(f"{source}: a policy is a mapping with type, version and properties")
    return found


def observing(document: Mapping[str, object], name: str = "policy") -> ParsedPolicy:
    """Return the document parsed, with `recovery.mode: observe` whatever it says there.

    Raises InvalidSpec for what is no health policy.
    """
    from yaffle.policy import parse_document

    if str(document.get("version")) != VERSION:
        raise InvalidSpec(
            f"{name}: version: is {document.get('version')!r}; a watch needs {VERSION}, in which a"
            " policy can say that it only observes"
        )
    properties = _table(document.get("properties"))
    recovery = {**_table(properties.get("recovery")), "mode": RecoveryMode.OBSERVE.value}
    whole = {**document, "properties": {**properties, "recovery": recovery}}
    parsed = parse_document(whole)
    if not isinstance(parsed.policy, HealthPolicy):
        raise InvalidSpec(f"{name}: it is a {parsed.type_name}, and no health policy")
    # Not a question of trust: an engine under another policy would act, and be refused each time.
    assert parsed.policy.recovery.mode is RecoveryMode.OBSERVE  # noqa: S101 - written above
    return parsed


def _table(value: object) -> dict[str, object]:
    return dict(value) if isinstance(value, Mapping) else {}
