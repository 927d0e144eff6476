"""The command `yaffle-health` as scripts and probes see it: what it prints and how it exits."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import health_peers as peers
import pytest
from health_wire import Given, serving

from yaffle_health.cli import main
from yaffle_health.cli.codes import MEANINGS, ExitCode
from yaffle_health.cli.parser import addresses
from yaffle_health.manager import Manager

FAIL = """{"status": "fail", "serviceId": "x", "description": "nova-compute",
 "notes": {"host": "c-1"}, "checks": {
  "message_bus": {"status": "pass", "time": "2026-11-20T00:00:00+00:00"},
  "hypervisor": {"status": "fail", "time": "2026-11-20T00:00:00Z", "output": "Libvirt \\u001b[2J"}}}"""
ANSWERS = {
    "pass": peers.answer(200, '{"status": "pass"}'),
    "warn": peers.answer(200, '{"status": "warn"}'),
    "fail": peers.answer(503, FAIL),
    "html": peers.answer(404, "<html>"),
}


class Changing:
    """An endpoint whose answer a test changes; asked for in what order is kept."""

    def __init__(self, path: Path, word: str) -> None:
        self.path, self.word = path, word
        self.asked = threading.Event()

    def script(self, connection: object) -> None:
        peers.saying(ANSWERS[self.word])(connection)  # type: ignore[arg-type]
        self.asked.set()


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Changing]:
    changing = Changing(tmp_path / "app.sock", "pass")
    with peers.listening(changing.path, changing.script):
        yield changing


@pytest.mark.parametrize(
    ("word", "code", "probe"), [("pass", 0, 0), ("warn", 1, 0), ("fail", 2, 1), ("html", 3, 1)]
)
def test_exit_codes_for_scripts_and_for_probes(
    endpoint: Changing, word: str, code: int, probe: int, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.word = word
    where = f"unix://{endpoint.path}"
    assert main(["get", where]) == code
    assert main(["get", "--warn-ok", where]) == (0 if code == 1 else code)
    capsys.readouterr()
    assert main(["get", "--probe", where]) == probe
    assert bool(capsys.readouterr().out) is (probe == 1)


def test_nobody_there_and_the_worst_of_several(endpoint: Changing, tmp_path: Path) -> None:
    nobody = str(tmp_path / "nobody.sock")
    assert main(["get", nobody]) == ExitCode.NO_VERDICT
    assert main(["get", "--probe", nobody]) == 1
    assert main(["get", str(endpoint.path), nobody]) == ExitCode.NO_VERDICT
    endpoint.word = "fail"
    assert main(["get", str(endpoint.path), str(endpoint.path)]) == ExitCode.FAIL


def test_what_people_read(endpoint: Changing, capsys: pytest.CaptureFixture[str]) -> None:
    endpoint.word = "fail"
    main(["get", str(endpoint.path)])
    head, hypervisor, bus = capsys.readouterr().out.splitlines()
    assert head == f"fail  unix://{endpoint.path}  nova-compute on c-1"
    assert hypervisor.startswith("  fail  hypervisor   ")
    # A peer must not be able to clear the screen of whoever looks.
    assert hypervisor.endswith("Libvirt \N{REPLACEMENT CHARACTER}[2J")
    assert bus.startswith("  pass  message_bus  ")


def test_what_programs_read(endpoint: Changing, capsys: pytest.CaptureFixture[str]) -> None:
    endpoint.word = "fail"
    main(["get", "--json", str(endpoint.path), "127.0.0.1:1"])
    one, other = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (one["status"], one["http_status"], one["problem"]) == ("fail", 503, None)
    assert one["checks"][0] | {"age_s": 0} == {
        "name": "hypervisor",
        "component_id": None,
        "status": "fail",
        "time": "2026-11-20T00:00:00+00:00",
        "age_s": 0,
        "expired": False,
        "output": "Libvirt \x1b[2J",
    }
    assert (other["status"], other["problem"], other["checks"]) == (None, "refused", [])
    assert one.keys() == other.keys()


def test_the_address_may_come_from_the_environment(
    endpoint: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YAFFLE_HEALTH_URI", f"unix://{endpoint.path}, unix://{endpoint.path}")
    assert main(["get"]) == 0


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        pytest.param(["get"], "YAFFLE_HEALTH_URI", id="no-address"),
        pytest.param(["get", "tcp://localhost:424242"], "port", id="port"),
        pytest.param(["get", "unix://run/x.sock"], "three slashes", id="unix-host"),
        pytest.param(["get", "https://x/health"], "TLS", id="tls"),
        pytest.param(["get", "ftp://x"], "tcp://host:port", id="scheme"),
        pytest.param(["get", "http://u:p@x/"], "userinfo", id="userinfo"),
        pytest.param(["get", "--path", "health", "x:1"], "begins with /", id="path"),
        pytest.param(["get", "--timeout", "0", "x:1"], "--timeout", id="timeout"),
        pytest.param(["watch", "--count", "-1", "x:1"], "--count", id="count"),
        pytest.param(["wait", "--until", "well", "x:1"], "--until", id="until"),
        pytest.param(["gather", "--uri", "tcp://127.0.0.1:1", "relative"], "absolute", id="dir"),
        pytest.param([], "COMMAND", id="nothing"),
    ],
)
def test_a_mistake_is_named_and_exits_with_64(
    arguments: list[str],
    word: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("YAFFLE_HEALTH_URI", raising=False)
    try:
        code = main(arguments)
    except SystemExit as left:
        code = int(left.code or 0)
    assert code == ExitCode.USAGE
    assert word in capsys.readouterr().err


def test_a_list_may_be_one_argument_as_it_may_be_in_the_variable(
    endpoint: Changing, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with peers.listening(None, peers.saying(ANSWERS["warn"])) as there:
        listed = f"127.0.0.1:{there.getsockname()[1]},{endpoint.path}"
        assert main(["get", listed]) == ExitCode.WARN
        heads = [line for line in capsys.readouterr().out.splitlines() if line[0] != " "]
        assert len(heads) == 2
        monkeypatch.setenv("YAFFLE_HEALTH_URI", listed)
        assert main(["get"]) == ExitCode.WARN


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:9000,/run/x.sock", ["127.0.0.1:9000", "/run/x.sock"]),
        ("tcp://[::1]:1, [::1]:2 ,h-1.x:3,", ["tcp://[::1]:1", "[::1]:2", "h-1.x:3"]),
        ("unix:///a.sock,,http://h/p", ["unix:///a.sock", "http://h/p"]),
        ("/run/a,b.sock", ["/run/a,b.sock"]),
        ("http://h/health?x=1,b", ["http://h/health?x=1,b"]),
        (" , ", []),
    ],
)
def test_where_a_list_is_taken_apart(text: str, found: list[str]) -> None:
    assert addresses(text) == found


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith("yaffle-health 0.")


def test_a_misspelt_group_is_answered_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving(Manager(groups={"mine": ["a"]})) as served:
        (address,) = served.addresses
        for more in ([], ["--probe"]):
            code = main(["get", *more, "--group", "typo", str(address)])
            assert code == (1 if more else ExitCode.NO_VERDICT)
            out = capsys.readouterr().out
            assert "no group 'typo': there are live, mine, ready, start" in out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["get"], ExitCode.NOT_WRITTEN),
        (["get", "--json"], ExitCode.NOT_WRITTEN),
        (["get", "--probe"], 1),
        (["watch", "--count", "2"], ExitCode.NOT_WRITTEN),
        (["--version"], ExitCode.NOT_WRITTEN),
    ],
)
def test_a_full_disk_is_no_traceback_and_no_warning(
    endpoint: Changing, arguments: list[str], code: int
) -> None:
    endpoint.word = "fail"
    where = [] if arguments[0].startswith("-") else [str(endpoint.path)]
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "yaffle_health", *arguments, *where],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert ran.returncode == code
    assert ran.stderr == "yaffle-health: cannot write the answer: No space left on device\n"


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(ExitCode)


def test_wait_ends_as_soon_as_it_is_true(endpoint: Changing) -> None:
    endpoint.word = "fail"

    def heal() -> None:
        endpoint.asked.wait(60)
        endpoint.word = "pass"

    thread = threading.Thread(target=heal)
    thread.start()
    with Given() as given:
        assert main(["wait", "--interval", "0.05", "--timeout", "60", str(endpoint.path)]) == 0
        assert given.s < 10
    thread.join()


@pytest.mark.parametrize(
    ("word", "until", "code"),
    [
        ("pass", "warn", ExitCode.PASS),
        ("warn", "warn", ExitCode.PASS),
        ("fail", "fail", ExitCode.PASS),
        ("warn", "pass", ExitCode.NOT_IN_TIME),
        ("pass", "fail", ExitCode.NOT_IN_TIME),
        ("html", "gone", ExitCode.NOT_IN_TIME),
        ("fail", "gone", ExitCode.NOT_IN_TIME),
    ],
)
def test_what_wait_waits_for(endpoint: Changing, word: str, until: str, code: ExitCode) -> None:
    endpoint.word = word
    timeout = "0.3" if code == ExitCode.NOT_IN_TIME else "60"
    arguments = ["wait", "--until", until, "--timeout", timeout, str(endpoint.path)]
    assert main(arguments) == code


def test_wait_waits_for_all_of_them(endpoint: Changing, tmp_path: Path) -> None:
    addresses = [str(endpoint.path), str(tmp_path / "nobody.sock")]
    assert main(["wait", "--timeout", "0.3", *addresses]) == ExitCode.NOT_IN_TIME


def test_wait_until_gone(tmp_path: Path) -> None:
    nobody = str(tmp_path / "nobody.sock")
    assert main(["wait", "--until", "gone", "--timeout", "60", nobody]) == ExitCode.PASS
    assert main(["wait", "--timeout", "0.3", nobody]) == ExitCode.NOT_IN_TIME


@contextlib.contextmanager
def _command(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "yaffle_health", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def test_watch_speaks_when_something_changes(endpoint: Changing) -> None:
    # Patient: who is asked and merely held up has changed nothing.
    arguments = ["watch", "--interval", "0.05", "--timeout", "60", str(endpoint.path)]
    with _command(*arguments) as process:
        assert process.stdout is not None
        assert " pass  unix://" in process.stdout.readline()
        endpoint.word = "fail"
        line = process.stdout.readline()
        assert " fail  unix://" in line
        assert "fail  hypervisor" in line
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == ExitCode.INTERRUPTED
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_watch_stops_after_count(endpoint: Changing, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["watch", "--interval", "0.01", "--count", "3", "--json", str(endpoint.path)]
    assert main(arguments) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_reader_that_goes_away_is_no_traceback(endpoint: Changing) -> None:
    with _command("watch", "--json", "--interval", "0.01", str(endpoint.path)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == ExitCode.PIPE
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_probe_imports_neither_asyncio_nor_the_server(endpoint: Changing) -> None:
    """It is started every few seconds in every container."""
    program = (
        "import sys; from yaffle_health.cli import main;"
        "code = main(['get', '--probe', sys.argv[1]]);"
        "heavy = {'asyncio', 'http.client', 'ssl', 'yaffle_health.server'};"
        "sys.exit(code or str(sorted(heavy & set(sys.modules))))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, f"unix://{endpoint.path}"],
        env={**os.environ, "PYTHONWARNINGS": "error"},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (1, "[]\n")
