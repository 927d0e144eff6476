"""The COMMAND workflow with real programs: stubborn, talkative, forking; and with killed engines."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import structlog
from tests.contract.notifiers.clock import SetClock
from tests.contract.workflows.targets import NODE
from tests.disks import fill, small_disk
from tests.given import Given
from tests.private import private
from tests.waiting import wait_for

from yaffle.drivers.workflows.command import CommandWorkflow
from yaffle.drivers.workflows.command import jobs as jobs_module
from yaffle.errors import ConfigError, InvalidSpec
from yaffle.model.ids import OperationId
from yaffle.model.operations import Progress, ProgressState
from yaffle.ports.context import DriverContext

RUNNING, DONE, FAILED, ABSENT = (
    ProgressState.RUNNING,
    ProgressState.DONE,
    ProgressState.FAILED,
    ProgressState.ABSENT,
)
OP = OperationId("op-1")


@dataclass
class Side:
    """One engine's view: a driver over a state directory; each call is a new driver."""

    state_dir: Path
    program: str
    settings: dict[str, object] = field(default_factory=dict)
    enabled: bool = True

    def driver(self) -> CommandWorkflow:
        # A name by content, written once: a program that is just starting reads the whole of it.
        if not self.script.exists():
            self.script.write_text(textwrap.dedent(self.program))
        argv = [sys.executable, "-I", "-S", str(self.script), "fixed"]
        command = {"argv": argv, **self.settings}
        settings = {"enabled": self.enabled, "commands": {"heal": command}}
        return CommandWorkflow(
            DriverContext(clock=SetClock(), state_dir=self.state_dir, settings=settings)
        )

    def submit(
        self,
        name: str = "heal",
        *,
        op: OperationId = OP,
        timeout_s: float = 300,
        **params: object,
    ) -> Progress:
        return asyncio.run(
            self.driver().submit(
                name, params, NODE, operation_id=op, timeout_s=timeout_s, deadline_s=60
            )
        )

    def poll(self, op: OperationId = OP) -> Progress:
        return asyncio.run(self.driver().poll("heal", NODE, operation_id=op, deadline_s=60))

    def finish(self, op: OperationId = OP) -> Progress:
        wait_for(lambda: self.poll(op).state is not RUNNING)
        return self.poll(op)

    def run(self, **given: object) -> Progress:
        assert self.submit(**given).state is not ABSENT  # type: ignore[arg-type]
        return self.finish()

    @property
    def script(self) -> Path:
        return self.state_dir / f"program-{zlib.crc32(self.program.encode())}.py"

    @property
    def job(self) -> Path:
        return self.state_dir / "workflows" / "command" / OP

    def settle(self, op: OperationId = OP) -> None:
        """Wait until no runner holds the job: what submit has started, if anything, is over."""

        def is_free() -> bool:
            with (self.job.with_name(op) / "lock").open() as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return False
                return True

        wait_for(is_free)

    def output(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.job / "output.json").read_text())
        return found


def marked(side: Side, op: OperationId = OP) -> list[psutil.Process]:
    """Every live process that the job has started, found by its environment."""
    found = []
    for process in psutil.process_iter():
        try:
            mark = process.environ().get("YAFFLE_JOB")
            if mark == str(side.job.with_name(op)) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_facts_come_on_stdin_and_argv_is_the_operators_alone(tmp_path: Path) -> None:
    side = Side(
        tmp_path,
        """
        import json, os, sys
        json.dump({"argv": sys.argv[1:], "in": json.load(sys.stdin), "env": dict(os.environ),
                   "cwd": os.getcwd(), "sid": os.getsid(0) == os.getpid()}, sys.stdout)
        """,
        {"env": {"COLOUR": "green"}},
    )
    assert side.run(zone="a; rm -rf /", timeout_s=12) == Progress(
        state=DONE, detail=side.finish().detail
    )
    told = json.loads(side.output()["stdout"])
    assert told["argv"] == ["fixed"]
    assert told["in"] == {
        "operation_id": "op-1",
        "command": "heal",
        "timeout_s": 12,
        "node": {
            "id": "node-1",
            "name": "web-1",
            "physical_id": "server-1",
            "cluster_id": "cluster-1",
            "cluster_name": "web",
            "profile_type": "yaffle.local.process-1.0",
            "attributes": {"node_ip": "10.0.0.7"},
        },
        "params": {"zone": "a; rm -rf /"},
    }
    assert set(told["env"]) - {"LC_CTYPE"} == {
        "PATH",
        "LANG",
        "HOME",
        "TMPDIR",
        "COLOUR",
        "YAFFLE_JOB",
    }
    assert told["cwd"] == str(side.job / "work")
    assert told["sid"] is True
    assert side.job.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("program", "state", "detail"),
    [
        pytest.param("", DONE, "done", id="0"),
        pytest.param("print('moved'); print()", DONE, "done: moved", id="0-with-words"),
        pytest.param(
            "import sys; print('no disk', file=sys.stderr); sys.exit(3)",
            FAILED,
            "exit 3: no disk",
            id="3",
        ),
        pytest.param("raise SystemExit(75)", FAILED, "temporary failure (exit 75)", id="75"),
        pytest.param("import os; os.kill(os.getpid(), 9)", FAILED, "killed by signal 9", id="9"),
        pytest.param(
            "import os; os.write(2, b'\\xff\\x1b[31m\\n'); raise SystemExit(1)",
            FAILED,
            "exit 1: \ufffd [31m",
            id="garbage",
        ),
    ],
)
def test_how_a_program_ends_is_what_is_said(
    tmp_path: Path, program: str, state: ProgressState, detail: str
) -> None:
    assert Side(tmp_path, program).run() == Progress(state=state, detail=detail)


def test_a_program_that_is_not_there_fails_with_its_reason(tmp_path: Path) -> None:
    progress = Side(tmp_path, "", {"argv": ["/no/such/program"]}).run()
    assert "could not start" in progress.detail
    # Not installed here is no word of whether it helps: nothing stronger may follow from it.
    assert progress == Progress.not_begun(progress.detail)


def test_on_a_full_disk_no_program_is_started_and_nothing_is_said_of_it(tmp_path: Path) -> None:
    """One whose end cannot be written down would be unknown for ever."""
    with small_disk(tmp_path / "disk", "1m") as place:
        side = Side(place, f"open({str(tmp_path / 'ran')!r}, 'a').write('x')")
        side.driver()
        full = fill(place)
        progress = side.submit()
        assert progress == Progress.not_begun(progress.detail)
        assert "No space left" in progress.detail
        assert not (tmp_path / "ran").exists()
        full.unlink()
        assert side.run().state is DONE
        assert (tmp_path / "ran").read_text() == "x"


def test_limits_are_set(tmp_path: Path) -> None:
    side = Side(
        tmp_path,
        """
        import resource as r
        print(r.getrlimit(r.RLIMIT_CORE), r.getrlimit(r.RLIMIT_NOFILE)[0] <= 1024)
        """,
    )
    assert side.run().detail == "done: (0, 0) True"


def test_output_of_any_size_is_bounded_and_keeps_its_end(tmp_path: Path) -> None:
    side = Side(
        tmp_path,
        """
        import sys
        for _ in range(300):
            sys.stdout.write("o" * 100_000)
            sys.stderr.write("e" * 100_000)
        print("the end", file=sys.stderr)
        """,
        {"max_output": 1000},
    )
    assert side.run().detail == "done: the end"[:5] + side.finish().detail[5:]
    kept = side.output()
    assert len(kept["stdout"]) == len(kept["stderr"]) == 1000
    assert kept["stderr"].endswith("the end\n")


def test_input_is_whole_and_nobody_waits_for_who_does_not_read_it(tmp_path: Path) -> None:
    big = "x" * 200_000
    side = Side(tmp_path, "import json, sys; print(len(json.load(sys.stdin)['params']['big']))")
    assert side.run(big=big).detail == "done: 200000"
    deaf = Side(tmp_path, "print('deaf')")
    assert deaf.submit(op=OperationId("deaf"), big=big).state is not FAILED
    assert deaf.finish(OperationId("deaf")).detail == "done: deaf"
    assert deaf.submit(op=OperationId("too-big"), big=big * 2).state is FAILED


STUBBORN = """
    import os, signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.setsid()
            break
    print("up", flush=True)
    while True:
        time.sleep(600)
"""


def run_into_timeout(folder: Path, program: str, word: str) -> tuple[float, Side, Progress]:
    """Run a program whose time is over once it says `word`: a busy machine has to give it more."""
    for timeout_s in (2, 10, 50):
        side = Side(folder / str(timeout_s), program)
        side.state_dir.mkdir()
        progress = side.run(timeout_s=timeout_s)
        if word in progress.detail:
            break
    return timeout_s, side, progress


def test_a_timeout_kills_all_that_ignores_sigterm_forks_and_flees(tmp_path: Path) -> None:
    with Given() as time_given:
        timeout_s, side, progress = run_into_timeout(tmp_path, STUBBORN, "up")
        assert progress == Progress(state=FAILED, detail="killed after its timeout: up")
        assert marked(side) == []
        assert time_given.s < 20 + 2 * timeout_s


def test_a_program_may_tidy_up_when_its_time_is_over(tmp_path: Path) -> None:
    program = """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *a: (print("tidied", flush=True), sys.exit(0)))
        print("up", flush=True)
        time.sleep(600)
        """
    _, _, progress = run_into_timeout(tmp_path, program, "tidied")
    # However politely it ended, it was not done.
    assert progress == Progress(state=FAILED, detail="killed after its timeout: tidied")


def test_the_operators_timeout_wins_over_a_longer_one_of_a_policy(tmp_path: Path) -> None:
    side = Side(tmp_path, "import time; time.sleep(60)", {"timeout": 0.3})
    assert side.run(timeout_s=600).detail == "killed after its timeout"


def test_left_overs_of_a_program_that_has_ended_are_killed(tmp_path: Path) -> None:
    side = Side(
        tmp_path,
        """
        import os, time
        if os.fork() == 0:
            os.setsid()
            time.sleep(60)
        """,
    )
    assert side.run().state is DONE
    assert marked(side) == []


def test_what_changes_its_pid_all_the_time_is_caught(tmp_path: Path) -> None:
    side = Side(
        tmp_path,
        """
        import os, time
        # Three hoppers: each has one child, then ends. There are never more than seven processes.
        for _ in range(3):
            if os.fork() == 0:
                break
        else:
            time.sleep(30)
            os._exit(0)
        for _ in range(1000):
            time.sleep(0.01)
            if os.fork():
                os._exit(0)
            os.setsid()
        """,
    )
    progress = side.run(timeout_s=1)
    assert progress == Progress(state=FAILED, detail="killed after its timeout")
    assert marked(side) == []


def test_the_same_operation_runs_once(tmp_path: Path) -> None:
    side = Side(
        tmp_path,
        f"""
        import time
        open({str(tmp_path / "ran")!r}, "a").write("x")
        time.sleep(0.3)
        """,
    )

    async def thrice() -> list[Progress]:
        drivers = [side.driver() for _ in range(3)]
        return await asyncio.gather(
            *(
                driver.submit("heal", {}, NODE, operation_id=OP, timeout_s=300, deadline_s=60)
                for driver in drivers
            )
        )

    assert {progress.state for progress in asyncio.run(thrice())} <= {RUNNING, DONE}
    assert side.submit().state in {RUNNING, DONE}
    assert side.finish().state is DONE
    side.settle()
    assert side.submit().state is DONE
    side.settle()
    assert (tmp_path / "ran").read_text() == "x"


def test_the_intent_is_on_disk_before_the_program_starts(tmp_path: Path) -> None:
    # Else a crash in between would read "never started", and the program would run twice.
    side = Side(tmp_path, "", {"argv": ["/bin/sh", "-c", "test -e ../started.json"]})
    for number in range(8):
        op = OperationId(f"op-{number}")
        side.submit(op=op)
        assert side.finish(op) == Progress(state=DONE, detail="done")


def test_an_unknown_operation_is_absent(tmp_path: Path) -> None:
    side = Side(tmp_path, "")
    assert side.poll().state is ABSENT
    assert side.poll(OperationId("../../etc")).state is ABSENT


def test_an_operation_id_is_never_a_path(tmp_path: Path) -> None:
    side = Side(tmp_path, "")
    for op in ("../up", "/abs", "a/b", ".", "..", "", "x" * 300, "a\nb"):
        assert side.submit(op=OperationId(op)).state is not FAILED
        assert side.finish(OperationId(op)).state is DONE
    assert {path.name for path in tmp_path.iterdir()} == {side.script.name, "workflows"}
    assert {path.name for path in (tmp_path / "workflows").iterdir()} == {"command"}


def test_a_crash_before_the_start_leaves_nothing_that_blocks(tmp_path: Path) -> None:
    side = Side(tmp_path, "print('late')")
    side.job.mkdir(parents=True)
    (side.job / "lock").touch()
    assert side.poll().state is ABSENT
    assert side.run().detail == "done: late"


ENGINE = """
    import sys, time
    from pathlib import Path
    from tests.contract.workflows.test_command import Side
    side = Side(Path(sys.argv[1]), sys.argv[2])
    print(side.submit().state, flush=True)
    time.sleep(60)
"""


def engine(side: Side) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(ENGINE), str(side.state_dir), side.program],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    return process


def test_a_program_outlives_its_killed_engine_and_a_successor_reads_how_it_ended(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    side = Side(
        tmp_path,
        f"""
        import os, time
        while not os.path.exists({str(gate)!r}):
            time.sleep(0.02)
        print("after the engine")
        """,
    )
    with engine(side) as process:
        process.kill()
    assert side.poll().state is RUNNING
    assert side.submit().state is RUNNING
    gate.touch()
    assert side.finish() == Progress(state=DONE, detail="done: after the engine")


def test_a_killed_runner_is_unknown_not_absent_and_leaves_nothing_alive(tmp_path: Path) -> None:
    side = Side(tmp_path, STUBBORN)
    assert side.submit().state is RUNNING
    wait_for(lambda: len(marked(side)) == 7)
    runner = json.loads((side.job / "started.json").read_text())["runner"]["pid"]
    os.kill(runner, signal.SIGKILL)
    progress = side.finish()
    assert progress.state is FAILED
    assert "unknown" in progress.detail
    wait_for(lambda: marked(side) == [])
    # Never a second time, and always the same answer.
    assert [side.submit(), side.poll()] == [progress, progress]


def test_the_recorded_process_is_the_program_and_the_runner_is_nobodys_zombie(
    tmp_path: Path,
) -> None:
    side = Side(tmp_path, "import time; time.sleep(600)")
    assert side.submit().state is RUNNING
    file = side.job / "started.json"
    wait_for(lambda: file.exists() and json.loads(file.read_text())["program"] is not None)
    started = json.loads((side.job / "started.json").read_text())
    ticks = os.sysconf("SC_CLK_TCK")
    for who in ("runner", "program"):
        process = psutil.Process(started[who]["pid"])
        since_boot = process.create_time() - psutil.boot_time()
        assert abs(started[who]["start_ticks"] / ticks - since_boot) < 2
    os.kill(started["program"]["pid"], signal.SIGKILL)
    assert side.finish().state is FAILED
    assert [p for p in psutil.Process().children() if p.status() == psutil.STATUS_ZOMBIE] == []


def test_secrets_are_in_no_argument_list_no_job_file_and_no_log(tmp_path: Path) -> None:
    secret = "hunter2-hunter2-hunter2"
    file, gate = tmp_path / "secret", tmp_path / "gate"
    private(file, secret + "\n")
    side = Side(
        tmp_path,
        f"""
        import hashlib, os, time
        print(hashlib.sha256(os.environ["TOKEN"].encode()).hexdigest() , flush=True)
        while not os.path.exists({str(gate)!r}):
            time.sleep(0.02)
        """,
        {"env_files": {"TOKEN": str(file)}},
    )
    lines: set[str] = set()
    with structlog.testing.capture_logs() as logs:
        assert side.submit(password="from-a-policy").state is RUNNING

        def both_seen() -> bool:
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error):
                    lines.add(" ".join(process.cmdline()))
            return all(any(w in line for line in lines) for w in ("runner.py", side.script.name))

        wait_for(both_seen)
        gate.touch()
        assert side.finish().state is DONE
    assert hashlib.sha256(secret.encode()).hexdigest() in side.output()["stdout"]
    told = f"{lines} {logs} {side.driver()._settings!r} {side.poll()}"
    told += "".join(p.read_text() for p in side.job.rglob("*") if p.is_file())
    assert secret not in told
    assert "from-a-policy" not in told


@pytest.mark.parametrize("output", [4096, 256])
def test_what_a_program_says_of_its_secret_is_masked(tmp_path: Path, output: int) -> None:
    """Also where the end that is kept begins in the middle of it, and where it has several lines."""
    secret = f"-----BEGIN-----\n{'hunter2-' * 8}\n-----END-----"
    private(tmp_path / "secret", secret)
    side = Side(
        tmp_path,
        """
        import os, sys
        token = os.environ["TOKEN"]
        middle = token.splitlines()[1]
        print(token)
        print(f"curl --header {middle} refused", file=sys.stderr)
        # The last 256 bytes begin some way into the secret.
        print(middle + "." * (256 - 1 - 20))
        sys.exit(f"cannot use {middle}: refused")
        """,
        {"env_files": {"TOKEN": str(tmp_path / "secret")}, "max_output": output},
    )
    done = side.run()
    assert done == Progress(state=FAILED, detail="exit 1: cannot use ***: refused")
    told = "".join(p.read_text() for p in side.job.rglob("*") if p.is_file())
    assert "hunter2" not in told
    assert "***" in side.output()["stdout"]


def test_a_missing_secret_file_starts_nothing(tmp_path: Path) -> None:
    side = Side(tmp_path, "", {"env_files": {"TOKEN": str(tmp_path / "missing")}})
    progress = side.submit()
    assert progress == Progress.not_begun(progress.detail)
    assert "env_files.TOKEN" in progress.detail
    assert side.poll().state is ABSENT


def test_off_means_off(tmp_path: Path) -> None:
    side = Side(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')", enabled=False)
    assert side.submit() == Progress.not_begun(side.submit().detail)
    assert "drivers.COMMAND.enabled" in side.submit().detail
    with pytest.raises(InvalidSpec, match=r"drivers\.COMMAND\.enabled"):
        side.driver().validate("heal", {})
    assert not (tmp_path / "workflows").exists()
    nothing = CommandWorkflow(DriverContext(clock=SetClock(), state_dir=tmp_path))
    with pytest.raises(InvalidSpec, match=r"drivers\.COMMAND\.enabled"):
        nothing.validate("heal", {})


def test_a_policy_can_only_name_what_the_operator_has_allowed(tmp_path: Path) -> None:
    side = Side(tmp_path, "", {"in_place": True})
    for name in ("/bin/sh", "sh -c true", "", "HEAL"):
        assert side.submit(name) == Progress.not_begun(side.submit(name).detail)
        with pytest.raises(InvalidSpec, match="known: heal"):
            side.driver().validate(name, {})
    with pytest.raises(InvalidSpec) as error:
        side.driver().validate("other", {"x": {1, "a"}, "y": object()})
    assert len(error.value.problems) == 2
    assert (side.driver().in_place("heal"), side.driver().in_place("other")) == (True, False)


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ({"argv": "/bin/sh -c true"}, "commands.heal.argv"),
        ({"argv": []}, "commands.heal.argv"),
        ({"argv": ["sh"]}, "commands.heal.argv"),
        ({"argv": ["/bin/true", 1]}, "commands.heal.argv"),
        ({"argv": ["/bin/true\0"]}, "commands.heal.argv"),
        ({"argv": ["/bin/true"], "shell": True}, "commands.heal.shell"),
        ({"argv": ["/bin/true"], "env": {"A=B": "c"}}, "commands.heal.env"),
        ({"argv": ["/bin/true"], "env": {"A": 1}}, "commands.heal.env"),
        ({"argv": ["/bin/true"], "env_files": {"A": "x"}}, "env_files.A"),
        ({"argv": ["/bin/true"], "timeout": 0}, "commands.heal.timeout"),
        ({"argv": ["/bin/true"], "in_place": "no"}, "commands.heal.in_place"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, command: dict[str, object], named: str) -> None:
    settings = {"enabled": True, "commands": {"heal": command}}
    with pytest.raises(ConfigError, match=named):
        CommandWorkflow(DriverContext(clock=SetClock(), state_dir=tmp_path, settings=settings))


def test_old_jobs_are_forgotten_but_never_a_live_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_module, "KEPT_JOBS", 3)
    live = Side(tmp_path, "import time; time.sleep(600)")
    assert live.submit(op=OperationId("live")).state is RUNNING
    side = Side(tmp_path, "")
    for number in range(6):
        op = OperationId(f"job-{number}")
        side.submit(op=op)
        side.finish(op)
        # A runner that has not ended yet keeps its job from being forgotten.
        side.settle(op)
    left = {path.name for path in (tmp_path / "workflows" / "command").iterdir()}
    assert left >= {"live", "job-5", "job-4"}
    assert len(left) <= 5
    for process in marked(live, OperationId("live")):
        process.kill()
    assert side.finish(OperationId("live")).state is FAILED
