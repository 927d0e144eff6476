"""Mapping of Nova's words to a node's status: one table, first match wins, read by the tests.

Three words say how a server is: its status, what is being done to it (task_state) and what the
hypervisor saw last (power_state). A guest that was wiped from its host keeps the status ACTIVE: only
the power state tells (0, after the next look of Nova's own, some seconds later). Of one that has gone
off Nova writes the power state first, and then stops the server: SHUTOFF.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from yaffle.integrations.openstack.servers.documents import Listed

NO_GUEST: Final = 0
"""nostate: Nova leaves it at that, for the hypervisor may just be starting."""
OFF: Final = frozenset({4, 6, 7})
"""shutdown, crashed, suspended: for Nova a reason to stop the server."""
RUNNING: Final = 1
PAUSED: Final = 3
ABOUT_TO_STOP: Final = "ACTIVE but off"
HARMLESS: Final = frozenset(
    {
        "image_backup",
        "image_pending_upload",
        "image_snapshot",
        "image_snapshot_pending",
        "image_uploading",
    }
)
"""What may be done to a server for an hour while its guest runs on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A state of a server; an empty set of words means any."""

    statuses: frozenset[str]
    up: bool | None
    why: str
    """For a person; follows Nova's own words."""
    word: str = ""
    """Shown instead of the status where that alone would mislead."""
    power: frozenset[int | None] = frozenset()
    idle: bool | None = None
    """Whether nothing, or only something harmless, is being done to it."""
    exists: bool = True
    event: str = ""
    """What must have happened, in the words of seed 1, where Nova itself knows of it."""


def _row(statuses: str, up: bool | None, why: str, **more: object) -> Row:
    return Row(statuses=frozenset(statuses.split()), up=up, why=why, **more)  # type: ignore[arg-type]


ROWS: Final[tuple[Row, ...]] = (
    _row("DELETED", False, "it is deleted", exists=False, event="DELETE"),
    _row("UNKNOWN", None, "Nova cannot reach the cell of this server"),
    # Whatever is being tried on it: it does not run.
    _row("ERROR", False, "it failed"),
    _row("BUILD", None, "it is being built"),
    _row(
        "REBUILD REBOOT HARD_REBOOT RESIZE REVERT_RESIZE VERIFY_RESIZE MIGRATING PASSWORD",
        None,
        "something is being done to it",
    ),
    _row("", None, "something is being done to it", idle=False),
    _row(
        "SOFT_DELETED",
        False,
        "it is off, and will be deleted unless it is restored",
        event="SOFT_DELETE",
    ),
    _row("PAUSED", False, "it is frozen in memory", event="PAUSE"),
    _row("SUSPENDED", False, "it is frozen on disk", event="SUSPEND"),
    _row("SHUTOFF", False, "it is off", event="POWER_OFF"),
    _row("ACTIVE", True, "it runs", power=frozenset({RUNNING})),
    _row("ACTIVE", False, "its host froze it", word="ACTIVE but paused", power=frozenset({PAUSED})),
    _row(
        "ACTIVE",
        False,
        "its host has no running guest for it",
        word="ACTIVE with no power",
        power=frozenset({NO_GUEST}),
    ),
    _row(
        "ACTIVE",
        False,
        "its guest is off, and Nova is about to stop it",
        word=ABOUT_TO_STOP,
        power=OFF,
        event="POWER_OFF",
    ),
    _row("RESCUE", None, "somebody rescues it"),
    _row("SHELVED SHELVED_OFFLOADED", None, "it was put away on purpose"),
)
UNKNOWN: Final = Row(statuses=frozenset(), up=None, why="words that we do not know")
GONE: Final = ROWS[0]


def row_of(server: Listed) -> Row:
    """Return the row that a server is in."""
    idle = server.task_state is None or server.task_state in HARMLESS
    for row in ROWS:
        if row.statuses and server.status not in row.statuses:
            continue
        if row.power and server.power_state not in row.power:
            continue
        if row.idle is not None and row.idle != idle:
            continue
        return row
    return UNKNOWN


def about_to_stop(server: Listed) -> bool:
    """Whether its guest is off, and Nova, which still calls it ACTIVE, refuses to start it."""
    return row_of(server).word == ABOUT_TO_STOP


def lock_of(server: Listed) -> str:
    """Say that a server is locked, and how that is taken back; empty where it is not."""
    if not server.locked:
        return ""
    why = f" ({server.locked_reason})" if server.locked_reason else ""
    return (
        f"server {server.id} is locked{why}, so that it is left alone:"
        f" `openstack server unlock {server.id}` lets it be healed again"
    )


def words_of(server: Listed) -> str:
    """Return Nova's own words for the state of a server, on one line."""
    words = [f"status {server.status}"]
    if server.task_state:
        words.append(f"task {server.task_state}")
    if server.power_state is not None:
        words.append(f"power {server.power_state}")
    if server.fault is not None and server.status == "ERROR":
        words.append(f"fault: {server.fault}")
    return ", ".join(words)
