"""Ownership tags of a server: whose copy it is, and which operation was begun on it.

    cluster_id, cluster_node_id, cluster_node_index   as Senlin wrote them
    yaffle_operation                                  the id of the newest operation
    yaffle_operation_note                             KIND, when it was begun (µs), the newest act
                                                      that Nova knew of before it, and its source host

Nova keeps no trace of a caller's own request id: what it remembers of an act is an id that it made
itself, and that it tells in its answer. So whoever finds a mark asks whether an act of that kind is
newer than the one that the mark names; an engine that died between the two left none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from yaffle.integrations.openstack.ownership_tags import CLUSTER, INDEX, NODE, OPERATION

NOTE: Final = "yaffle_operation_note"
OURS: Final = frozenset({CLUSTER, NODE, INDEX, OPERATION, NOTE})
_NOTHING: Final = "-"
_WHEN: Final = re.compile(r"[0-9]{1,18}")
"""Anybody may write there: a number without an end is none, and no more is a ²."""

MARKABLE: Final = frozenset({"ACTIVE", "PAUSED", "SUSPENDED", "SHUTOFF", "REBOOT", "HARD_REBOOT"})
"""Nova refuses (409) to change the metadata of a server that is in any other state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The newest operation that was begun on a server."""

    operation_id: str
    kind: str
    at_us: int
    before: str = ""
    """Request id of the newest act before it; empty where there was none."""
    source: str = ""
    """The host that the server was on, where the operation is to take it away from there."""

    def written(self) -> dict[str, str]:
        """Return the metadata that says so."""
        note = (self.kind, str(self.at_us), self.before or _NOTHING, self.source or _NOTHING)
        return {OPERATION: self.operation_id, NOTE: " ".join(note)}


def mark_of(metadata: Mapping[str, str]) -> Mark | None:
    """Return the mark; None where there is none, or where somebody has spoilt it."""
    ident, note = metadata.get(OPERATION, ""), metadata.get(NOTE, "").split(" ")
    if not ident or len(note) != 4 or not _WHEN.fullmatch(note[1]):
        return None
    kind, at_us, before, source = note
    return Mark(
        operation_id=ident,
        kind=kind,
        at_us=int(at_us),
        before="" if before == _NOTHING else before,
        source="" if source == _NOTHING else source,
    )
