"""The helper of an endpoint that is served apart: small, nobody's child, gone with its host."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from health_apart import SERVE, helpers_of, hosting, inherited, lives, parent_of
from health_servers import children
from health_wire import GET, PATIENCE_S, ask, connected, eventually, read_all, serving, split

from yaffle_health.apart import interpreter
from yaffle_health.endpoint import serve
from yaffle_health.errors import BadOption
from yaffle_health.manager import Manager
from yaffle_health.server import Endpoint, spawn
from yaffle_health.uris import Tcp

SICK = "manager.report('bus', 'warn', 'slow')\n" + SERVE.replace("=60)", "=2)")
HEAVY = """asyncio ctypes hashlib http inspect ipaddress logging pathlib rfc3986 signal socket subprocess
tempfile threading traceback"""


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_the_helper_is_small_and_nobodys_child(tmp_path: Path) -> None:
    # A library may have left something open to the programs that a host starts.
    leak = "import os; os.dup2(os.open('/dev/zero', os.O_RDONLY), 40, inheritable=True)"
    with hosting(tmp_path, first=leak + "\nimport signal; got = []\n"
                 "signal.signal(signal.SIGCHLD, lambda *_: got.append(1))\n") as host:  # fmt: skip
        assert host.ask().status == 200
        helper = host.helper
        # What was started first has the same name, and may be held up before it ends.
        eventually(lambda: not children(host.process.pid), "what was started first is left")
        assert helpers_of(host.process.pid) == [helper]
        assert parent_of(helper) != host.process.pid
        assert os.getsid(helper) not in {os.getsid(0), os.getsid(host.process.pid)}
        assert Path(f"/proc/{helper}/comm").read_text().strip() == "yaffle-health"
        assert Path(f"/proc/{helper}/cwd").readlink() == Path("/")
        assert Path(f"/proc/{helper}/environ").read_bytes() == b""
        kinds = [name.split(":")[0].split(" ")[0] for name in inherited(helper)]
        # The channel and the one that listens, and nothing of the host's.
        assert sorted(kinds) == sorted(
            ["/dev/null"] * 2 + ["socket"] * 2 + ["anon_inode"] * 3 + ["/memfd"] * 2
        )
        # Nothing that the host may wait for: not even what was started first is left to be.
        code = "[os.waitpid(-1, os.WNOHANG)]"
        assert host.do(f"exec('try: r = {code}\\nexcept ChildProcessError: r = 0') or r") == "0"
        assert host.do("len(got)") == "1", "one SIGCHLD, of what was started first"
        os.kill(helper, signal.SIGKILL)
        eventually(lambda: helpers_of(host.process.pid) not in ([], [helper]))
        host.helper  # noqa: B018 - has come
        eventually(lambda: not children(host.process.pid), "what was started first is left")
        assert host.do("len(got)") == "2", "none for its end, and one for the next one's start"


def test_what_a_host_blocks_or_ignores_is_not_so_in_the_helper(tmp_path: Path) -> None:
    first = """
import signal
signal.signal(signal.SIGALRM, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGCONT, signal.SIGRTMIN})
"""
    with hosting(tmp_path, first=first) as host:
        assert host.ask().status == 200
        status = Path(f"/proc/{host.helper}/status").read_text()
        found = dict(line.split(":\t", 1) for line in status.splitlines())
        assert int(found["SigBlk"], 16) == 0
        ignored = {number for number in range(1, 32) if int(found["SigIgn"], 16) >> number - 1 & 1}
        # Ours, and Python's: SIGPIPE and SIGXFSZ.
        wanted = [
            "SIGHUP",
            "SIGINT",
            "SIGQUIT",
            "SIGTERM",
            "SIGUSR1",
            "SIGUSR2",
            "SIGPIPE",
            "SIGXFSZ",
        ]
        assert ignored == {int(getattr(signal, name)) for name in wanted}


def test_it_takes_little(tmp_path: Path) -> None:
    with hosting(tmp_path) as host:
        assert host.ask().status == 200
        helper = host.helper
        lines = Path(f"/proc/{helper}/smaps_rollup").read_text().splitlines()[1:]
        kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        # Other builds of Python are larger than Debian's, whose is 12.
        assert kib["Rss"] < 15 * 1024
        assert kib["Private_Dirty"] < 8 * 1024
        mapped = Path(f"/proc/{helper}/maps").read_text()
        assert "libssl" not in mapped
        assert "_ctypes" not in mapped


def test_the_helper_imports_no_more_than_it_needs() -> None:
    code = (
        "import sys; sys.path.append(sys.argv[1]); import yaffle_health.server.helper as h;"
        "print(*(n for n, m in sys.modules.items() if not isinstance(m, h._Later)))"
    )
    source = Path(sys.modules["yaffle_health"].__file__ or "").parents[1]
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(source)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = set(found.stdout.split())
    assert sorted(loaded & set(HEAVY.split())) == []
    assert not [name for name in loaded if name.startswith(("yaffle_health.manager", "email"))]


def test_a_module_that_somebody_uses_after_all_is_imported() -> None:
    code = (
        "import sys; sys.path.append(sys.argv[1]); import yaffle_health.server.helper;"
        "import dataclasses, urllib.parse;"
        "print(dataclasses.dataclass(type('A', (), {'__annotations__': {'x': int}})).__doc__,"
        "urllib.parse.urlsplit('http://[::1]:8/').hostname)"
    )
    source = Path(sys.modules["yaffle_health"].__file__ or "").parents[1]
    command = [sys.executable, "-I", "-S", "-c", code, str(source)]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert found.stdout.strip() == "A(x: int) ::1", found.stderr


def test_signals_of_a_terminal_and_of_a_unit_do_not_end_it(tmp_path: Path) -> None:
    with hosting(
        tmp_path, first="import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    ) as host:
        assert host.ask().status == 200
        helper = host.helper
        for name in ("SIGINT", "SIGHUP", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGPIPE"):
            os.kill(helper, getattr(signal, name))
        for _ in range(3):
            assert host.ask().status == 200
        assert host.helper == helper
        assert lives(helper)


def test_close_ends_it_and_it_starts_again(tmp_path: Path) -> None:
    with hosting(tmp_path) as host:
        for _ in range(3):
            helper = host.helper
            assert host.ask().status == 200
            host.do("endpoint.close()")
            assert not lives(helper)
            assert not Path(host.at.path).exists()
            assert host.do("endpoint.helper_pid") == "None"
            host.do("endpoint.start()")
        host.helper  # noqa: B018 - has come
        host.do("endpoint.close()")
        assert host.do("[n for n in os.listdir('/proc/self/fd') if int(n) > 3]") == "[]"


def test_close_ends_one_that_is_stopped(tmp_path: Path) -> None:
    with hosting(tmp_path) as host:
        assert host.ask().status == 200
        helper = host.helper
        os.kill(helper, signal.SIGSTOP)
        host.do("endpoint.close()")
        assert not lives(helper)


def test_a_port_is_free_as_soon_as_it_is_closed() -> None:
    with serving(apart=True) as endpoint:
        (address,) = endpoint.addresses
    for _ in range(5):
        with Endpoint(Manager().health, uri=str(address), required=True, apart=True) as again:
            assert ask(again.addresses[0]).status == 200
        with pytest.raises(ConnectionRefusedError):
            connected(address)


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "exit", "os._exit", "exec"])
def test_it_ends_when_the_host_ends(how: str, tmp_path: Path) -> None:
    with hosting(tmp_path) as host:
        assert host.ask().status == 200
        helper = host.helper
        if how.startswith("SIG"):
            host.process.send_signal(getattr(signal, how))
        else:
            host.tell({"exit": "sys.exit()", "exec": "os.execv('/bin/sleep', ['sleep', '60'])"}.get(
                how, "os._exit(3)"
            ))  # fmt: skip
        eventually(lambda: not lives(helper), "the helper outlives its host")
        if how == "exec":
            assert host.process.poll() is None
        assert Path(host.at.path).exists() is (how != "exit"), "as without a helper"


def test_it_ends_although_a_child_of_the_host_lives(tmp_path: Path) -> None:
    """A fork that Python does not know of keeps all that the host had open, the channel too."""
    with hosting(tmp_path) as host:
        assert host.ask().status == 200
        helper = host.helper
        host.do("libc = ctypes.PyDLL(None)")
        child = int(
            host.do("(lambda pid: pid if pid else [libc.pause(), libc._exit(0)])(libc.fork())")
        )
        try:
            assert any(name.startswith("/memfd:yaffle") for name in inherited(child))
            host.process.kill()
            host.process.wait(PATIENCE_S)
            assert lives(child)
            eventually(lambda: not lives(helper), "the helper outlives its host")
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("how", ["SIGSTOP", "a held interpreter"])
def test_a_host_that_says_nothing_is_told_of(how: str, tmp_path: Path) -> None:
    with hosting(tmp_path, SICK) as host:
        # Where it is merely held up for that long it is told of as well.
        eventually(lambda: host.ask().status == 200)
        host.helper  # noqa: B018 - has come
        door = tmp_path / "door"
        os.mkfifo(door)
        if how == "SIGSTOP":
            host.process.send_signal(signal.SIGSTOP)
        else:
            # What an extension does that never gives the interpreter away: until somebody writes.
            host.tell(f"ctypes.PyDLL(None).open({str(door).encode()!r}, 0)")
        eventually(lambda: host.ask().status == 503)
        document = json.loads(host.ask().body)
        item = document["checks"]["process"]
        assert item["status"] == "fail" == document["status"]
        assert item["output"].startswith("the process has said nothing for ")
        seconds = int(item["output"].split()[-2])
        assert 2 <= seconds < PATIENCE_S
        assert document["checks"]["db"] == {
            "status": "warn",
            "time": document["checks"]["db"]["time"],
            "output": "unknown while the process says nothing; the last was pass",
            "lastStatus": "pass",
        }
        assert document["checks"]["bus"]["output"].endswith("; the last was warn: slow")
        assert host.ask("?group=live").status == 503
        assert host.ask("?group=typo").status == 404
        assert b"has said nothing" in host.ask("?format=ietf").body

        def silent_s() -> int:
            output: str = json.loads(host.ask().body)["checks"]["process"]["output"]
            return int(output.split()[-2])

        if how == "SIGSTOP":
            eventually(lambda: silent_s() > seconds)
            first = json.loads(host.ask().body)["checks"]["process"]["time"]
            assert first == item["time"], "when the last word came does not move"
            host.process.send_signal(signal.SIGCONT)
        else:
            door.open("w").close()
        eventually(lambda: host.ask().status == 200)
        assert b"process" not in host.ask().body


def test_a_helper_that_dies_is_replaced_and_nobody_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(apart=True, uri=f"tcp://127.0.0.1:0,unix://{tmp_path}/x.sock") as endpoint:
        helpers = set()
        for turn in range(2):
            eventually(lambda: endpoint.helper_pid not in {None, *helpers})
            helper = endpoint.helper_pid
            assert helper is not None
            helpers.add(helper)
            os.kill(helper, signal.SIGKILL)
            eventually(lambda: not lives(helper))  # noqa: B023
            for address in endpoint.addresses:
                # Nobody is there: it queues until the next one has come.
                assert ask(address).status == 200, turn
        # What starts one has its name, too, until it has ended.
        eventually(lambda: len(helpers_of(os.getpid())) == 1)
    told = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert told == [
        "the helper that shows the health has ended; in 0.5 s comes another",
        "the helper that shows the health has ended; in 1 s comes another",
    ]


def test_why_a_helper_cannot_live_is_told(caplog: pytest.LogCaptureFixture) -> None:
    before = spawn._PROGRAM
    spawn._PROGRAM = before.replace("sys.implementation.cache_tag !=", "'cpython-27' !=")
    try:
        with serving(apart=True):
            eventually(lambda: len(caplog.records) >= 2)
    finally:
        spawn._PROGRAM = before
    tag = sys.implementation.cache_tag
    for record in caplog.records[:2]:
        assert f"is no {tag}); in" in record.getMessage()


def test_an_address_that_cannot_be_had_is_the_same_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        endpoint = serve(Manager(), uri=f"tcp://127.0.0.1:{port}", apart=True)
    assert "Address already in use" in str(endpoint.failures[0])
    assert not endpoint.running
    assert helpers_of(os.getpid()) == []


def test_nothing_is_left_where_no_helper_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreter, "find", lambda: "/no/such/python")
    before = descriptors()
    with pytest.raises(BadOption, match="No such file"):
        serve(Manager(), uri=f"unix://{tmp_path}/x", apart=True, required=True)
    assert list(tmp_path.iterdir()) == []
    assert descriptors() == before


def test_an_endpoint_without_an_address_has_no_helper() -> None:
    endpoint = serve(Manager(), uri="", apart=True)
    assert (endpoint.running, endpoint.helper_pid) == (False, None)


def test_two_endpoints_of_a_host_have_one_helper_each(tmp_path: Path) -> None:
    one = f"unix://{tmp_path}/one.sock"
    with serving(apart=True) as first, serving(apart=True, uri=one) as second:
        for each in (first, second):
            assert ask(each.addresses[0]).status == 200
            eventually(lambda: each.helper_pid is not None)  # noqa: B023
            assert isinstance(each.addresses[0], Tcp) is (each is first)
        # What starts one has its name, too, until it has ended.
        both = sorted([first.helper_pid or 0, second.helper_pid or 0])
        eventually(lambda: sorted(helpers_of(os.getpid())) == both)


def test_a_flood_is_answered(tmp_path: Path) -> None:
    with hosting(tmp_path) as host:
        clients = []
        for _ in range(100):
            # At once: of those that have asked nothing the oldest go where there are too many.
            clients.append(connected(host.at))
            clients[-1].sendall(GET)
        for client in clients:
            assert split(read_all(client)).status == 200
            client.close()


def test_the_host_has_one_thread_more(tmp_path: Path) -> None:
    with hosting(tmp_path) as host:
        assert (
            host.do("sorted(t.name for t in __import__('threading').enumerate())")
            == "['MainThread']"
        )
        assert host.do("len(os.listdir('/proc/self/task'))") == "2"
