"""Whether a process could be started anew, before the one that runs is ended for it."""

from __future__ import annotations

import shutil
from pathlib import Path

from yaffle.drivers.profiles.local_process.folder import Folder
from yaffle.drivers.profiles.local_process.launch import Order, draw_up
from yaffle.drivers.profiles.local_process.record import RecordUnreadable
from yaffle.drivers.profiles.local_process.spec import parse
from yaffle.errors import InvalidSpec
from yaffle.integrations.disk import TRIED_BYTES, try_room
from yaffle.model.operations import Operation, Outlook, Prospect


def foresee(state_dir: Path, op: Operation) -> Prospect:
    """Say whether the command is there and its record can be written; blocks as long as the disk."""
    try:
        folder = Folder(state_dir, op.target.node_id)
        record = folder.load()
        if record is None:
            return Prospect(outlook=Outlook.POSSIBLE, detail="there is nothing to give up")
        order = draw_up(parse(op.target.spec), record, op.target, folder, "")
        if why := _missing(order, made=folder.work):
            return Prospect(outlook=Outlook.IMPOSSIBLE, detail=why)
        try_room(folder.path)
    except InvalidSpec as error:
        return Prospect(outlook=Outlook.IMPOSSIBLE, detail="; ".join(error.problems))
    except (OSError, RecordUnreadable, ValueError) as error:
        # A disk that is full has room again one day: that is nobody's last word.
        why = f"{TRIED_BYTES // 1024} KiB cannot be written below {state_dir}: {error}"
        return Prospect(outlook=Outlook.UNKNOWN, detail=why)
    return Prospect(outlook=Outlook.POSSIBLE, detail="")


def _missing(order: Order, *, made: Path) -> str:
    """Return what the launcher would not find, as it looks for it; raises OSError where none can say.

    `made` is the folder that a launch makes: a deletion that was interrupted leaves the node without.
    """
    program = order.argv[0]
    if "/" not in program and shutil.which(program, path=order.env.get("PATH", "")) is None:
        return f"{program} is not on the node's PATH; install it, or let the profile name another"
    cwd = Path(order.cwd)
    for path in (cwd, cwd / program) if "/" in program else (cwd,):
        if path == made:
            continue
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return f"{path} is not there; bring it back, or let the profile name another"
    return ""
