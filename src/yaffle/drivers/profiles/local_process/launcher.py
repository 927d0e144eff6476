"""Becomes a node: run as `python -I -S launcher.py`, never imported, and knows nothing of Yaffle.

Reads one JSON object from standard input: argv, env, cwd, log, note, marks, timeout_s, lock. Forks
so that it is nobody's child, leads a session of its own, writes the note (pid, start time, boot),
then executes the command. Says `{"error": …}` on standard output when it cannot; silence and the
end of file mean that the command has been executed.
"""

# pathlib would add half to the start of every node.
# ruff: noqa: PTH105, PTH120, PTH123

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import sys

MESSAGES = 1


def main() -> None:
    # A truncated order, from an engine killed meanwhile, does not parse: nothing is started.
    order = json.loads(sys.stdin.buffer.read())
    if os.fork():
        os._exit(0)
    # Whatever hangs before the command runs (a dead network disk), the lock comes free again.
    signal.alarm(max(1, math.ceil(order["timeout_s"])))
    os.setsid()
    status = os.dup(MESSAGES)
    os.set_inheritable(order["lock"], False)
    note = {"operation_id": order["operation_id"], **identity(), "error": ""}
    noted = False
    try:
        prepare(order, keep=(status, order["lock"]))
        write_whole(order["note"], note)
        noted = True
        execute(order)
    except OSError as error:
        signal.alarm(0)
        text = explain(order, error, noted=noted)
        if noted:
            write_whole(order["note"], {**note, "error": text})
        os.write(status, json.dumps({"error": text}).encode())
    os._exit(1)


def identity() -> dict[str, object]:
    with open("/proc/self/stat", "rb") as stat:
        start = int(stat.read().rpartition(b")")[2].split()[19])
    with open("/proc/sys/kernel/random/boot_id") as boot:
        return {"pid": os.getpid(), "start": start, "boot": boot.read().strip()}


def prepare(order: dict[str, object], keep: tuple[int, ...]) -> None:
    """Standard files, folder, umask, descriptors, signals: nothing of the engine's is inherited."""
    os.umask(0o022)
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(str(order["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOCTTY, 0o600)
    for source, number in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, number)
    os.chdir(str(order["cwd"]))
    first = 3
    for kept in sorted(keep):
        os.closerange(first, kept)
        first = kept + 1
    os.closerange(first, 65536)
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def execute(order: dict[str, object]) -> None:
    argv, env = order["argv"], order["env"]
    if not isinstance(argv, list) or not isinstance(env, dict):
        raise OSError(22, "malformed order")
    program = argv[0] if "/" in argv[0] else shutil.which(argv[0], path=env.get("PATH", ""))
    if program is None:
        raise FileNotFoundError(2, "not found on PATH", argv[0])
    signal.alarm(0)
    os.execve(program, argv, env)  # noqa: S606 - there is no shell, on purpose


def explain(order: dict[str, object], error: OSError, *, noted: bool) -> str:
    """Say which step failed, on what, and why."""
    reason = error.strerror or str(error)
    if error.filename is not None and error.filename == order["cwd"]:
        return f"cannot enter the working directory {error.filename}: {reason}"
    if error.filename is not None and error.filename == order["log"]:
        return f"cannot open the log file {error.filename}: {reason}"
    if not noted:
        return f"cannot write down the start in {order['note']}: {reason}"
    argv = order["argv"]
    program = argv[0] if isinstance(argv, list) else argv
    return f"cannot execute {program!r}: {reason}"


def write_whole(path: object, content: dict[str, object]) -> None:
    """Write, sync, rename, sync the folder."""
    temporary = f"{path}.new"
    with open(temporary, "w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, str(path))
    folder = os.open(os.path.dirname(str(path)), os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder)
    os.close(folder)


if __name__ == "__main__":
    main()
