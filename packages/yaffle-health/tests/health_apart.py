"""Hosts whose endpoint is served apart: a process that does what a test writes to it."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from health_wire import Answer, ask, eventually

from yaffle_health.uris import Unix

# Each line that comes is done, and answered with a line.
PROGRAM = """
import ctypes, os, signal, socket, sys, time
import yaffle_health as y
sock = sys.argv[1]
manager = y.Manager(description="host", host="here", service_id="me")
manager.passed("db")
{begin}
print("began", flush=True)
for line in sys.stdin:
    try:
        said = repr(eval(line))
    except SyntaxError:
        exec(line)
        said = "done"
    print(said, flush=True)
"""
# Patient: a host that is held up has not fallen silent. What is about silence says less.
SERVE = (
    "endpoint = y.serve(manager, uri=f'unix://{sock}', apart=True, required=True, silent_max_s=60)"
)


class Host:
    """One that runs; `at` is where it shows its health."""

    def __init__(self, process: subprocess.Popen[str], at: Path) -> None:
        self.process, self.at = process, Unix(str(at))

    def do(self, line: str) -> str:
        """Let it do that; return what comes of it."""
        self.tell(line)
        return self.answer()

    def tell(self, line: str) -> None:
        """Let it do that, and do not wait."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """Wait for what comes of it."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, query: str = "") -> Answer:
        """Ask how it is."""
        return ask(self.at, f"GET /health{query} HTTP/1.0\r\n\r\n".encode())

    @property
    def helper(self) -> int:
        """The process that answers for it."""
        eventually(lambda: self.do("endpoint.helper_pid") != "None")
        return int(self.do("endpoint.helper_pid"))


@contextlib.contextmanager
def hosting(
    folder: Path, begin: str = SERVE, *, first: str = "", **options: object
) -> Iterator[Host]:
    """A host; `first` comes before everything else in its program."""
    at = folder / "health.sock"
    program = first + PROGRAM.replace("{begin}", begin)
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", program, str(at)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            **options,  # type: ignore[call-overload]
        ) as process,
    ):
        host = Host(process, at)
        try:
            assert host.answer() == "began", (folder / "log").read_text()
            yield host
        except BaseException:
            print((folder / "log").read_text()[-4000:])
            raise
        finally:
            for each in (signal.SIGCONT, signal.SIGKILL):
                process.send_signal(each)


def lives(pid: int) -> bool:
    """Whether that process runs, or is stopped; nobody may have taken note of its end."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in {"Z", "X"}


def helpers_of(pid: int) -> list[int]:
    """The helpers of a host that run, by what `ps` says of them."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit() and lives(int(each.name)):
            with contextlib.suppress(OSError):
                if (each / "cmdline").read_bytes().endswith(f"yaffle-health of {pid}\0".encode()):
                    found.append(int(each.name))
    return found


def parent_of(pid: int) -> int:
    """The process that it is a child of."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def inherited(pid: int) -> list[str]:
    """What a process has open."""
    return [str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()]
