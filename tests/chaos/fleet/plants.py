"""Bugs to plant in a copy of the sources; in a real fleet a rule of the judge has to find each."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaffle

SOURCES = Path(yaffle.__file__).parent


@dataclass(frozen=True, slots=True)
class Edit:
    """In one file, one text for another; the text must be there once."""

    path: str
    old: str
    new: str

    def fits(self) -> bool:
        """Whether there is exactly one place for it."""
        return (SOURCES / self.path).read_text().count(self.old) == 1


@dataclass(frozen=True, slots=True)
class Plant:
    """One bug, what happens to the fleet, and the rule that has to be broken."""

    name: str
    trouble: str
    rule: str
    edits: Sequence[Edit]


PLANTS = (
    Plant(
        "whoever was frozen goes on as if nothing had been",
        "freeze",
        "old_hand",
        (
            Edit(
                "engine/runtime/session.py",
                "        return self.left_s() > need_s\n",
                "        return True\n",
            ),
            Edit(
                "store/leases.py",
                '(engines.c.seen_us > bindparam("since", type_=BigInteger))',
                '(engines.c.seen_us != bindparam("since", type_=BigInteger))',
            ),
            Edit(
                "store/actions.py",
                "        or action.owner != ticket.engine_id\n"
                "        or action.epoch != ticket.epoch\n",
                "",
            ),
        ),
    ),
    Plant(
        "nobody takes what a dead engine held",
        "kill",
        "uncovered",
        (
            Edit(
                "store/watch_leases.py",
                "free=row.owner not in running or row.lease_us < now_us,",
                "free=row.owner not in running,",
            ),
        ),
    ),
    Plant(
        "grace begins anew with each owner",
        "kill",
        "grace_begun_again",
        (
            Edit(
                "store/watch_leases.py",
                "    _add_rows(conn, [w.cluster_id for w in wanted], now_us)\n",
                "    _add_rows(conn, [w.cluster_id for w in wanted], now_us)\n"
                "    conn.execute(\n"
                "        update(nodes)\n"
                "        .where(nodes.c.cluster_id.in_([w.cluster_id for w in wanted]))\n"
                "        .values(grace_us=now_us, version=nodes.c.version + 1)\n"
                "    )\n",
            ),
        ),
    ),
    Plant(
        "news is taken for told before it is",
        "mute receiver",
        "untold",
        (
            Edit(
                "engine/notifications/dispatcher.py",
                "            delivery, said = await self._send(item)\n",
                '            await self._note(item, Delivery.ACCEPTED, "")\n'
                "            delivery, said = await self._send(item)\n",
            ),
        ),
    ),
    Plant(
        "a database that went back stops nobody",
        "go back",
        "acted_blindly",
        (Edit("store/rollback_detection.py", "    stop(conn, now_us, reason)\n", ""),),
    ),
    Plant(
        "what lives is not found",
        "stop a node",
        "two_copies",
        (
            Edit(
                "drivers/profiles/local_process/process_table.py",
                "        return not self.members and not self.doubtful\n",
                "        return True\n",
            ),
            Edit(
                "drivers/fencers/compute.py",
                "            case ProgressState.DONE if gone:\n",
                "            case ProgressState.DONE:\n",
            ),
        ),
    ),
)


def planted(plant: Plant, root: Path) -> Path:
    """Return a tree of sources with the bug in it."""
    shutil.copytree(SOURCES, root / "yaffle", ignore=shutil.ignore_patterns("__pycache__"))
    for edit in plant.edits:
        path = root / "yaffle" / edit.path
        path.write_text(path.read_text().replace(edit.old, edit.new))
    return root
