"""The container file: what it promises, its build steps, and what its process 1 does.

No image is built here: there is no engine for that. The steps of the build stage are run in plain
folders, and what comes out is run below `tini` as process 1 of a PID namespace.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tests.packaging.containerfile import Step, steps
from tests.packaging.nodes import living, profile
from tests.packaging.places import PACKAGING, ROOT
from tests.packaging.serving import Serving, environment, until

FILE = PACKAGING / "container/Containerfile"
STEPS = steps(FILE)
BELOW = ("setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--mount-proc")
BELOW += ("--kill-child",)


def of(word: str, stage: str = "") -> list[Step]:
    return [s for s in STEPS if s.word == word and s.stage == stage]


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="there is no hadolint")
def test_the_linter_finds_nothing() -> None:
    done = subprocess.run(
        # DL3008: Debian's tini is pinned by the release of the base image.
        ["hadolint", "--ignore", "DL3008", str(FILE)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_it_comes_from_plain_well_known_images() -> None:
    bases = [s.rest.partition(" AS ")[0] for s in STEPS if s.word == "FROM"]
    assert bases == ["python:3.12.11-slim-bookworm"] * 2
    assert not [s for s in STEPS if s.word == "ADD" or ("://" in s.rest and s.word == "RUN")]


def test_it_is_nobody_is_asked_how_it_is_and_can_be_stopped() -> None:
    [user] = of("USER")
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", user.rest)
    made = " ".join(s.rest for s in of("RUN"))
    assert f"--uid {user.rest.partition(':')[0]} " in made
    assert of("STOPSIGNAL")[0].rest == "SIGTERM"
    assert of("ENTRYPOINT")[0].args == ["tini", "--", "yaffle"]
    assert of("CMD")[0].args == ["serve"]
    assert of("HEALTHCHECK")
    last = [s.word for s in STEPS if not s.stage]
    # Nothing is run as root after that.
    assert "RUN" not in last[last.index("USER") :]


def sources() -> list[str]:
    """Return what is copied out of the repository."""
    return [name for s in of("COPY", "build") for name in s.rest.split()[:-1]]


def test_what_it_copies_is_there_and_is_let_through() -> None:
    let_through = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert set(sources()) == set(let_through)
    assert [name for name in sources() if not (ROOT / name).exists()] == []


# --- the build stage, run ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that would be /opt/yaffle in the image."""
    folder = tmp_path_factory.mktemp("image")
    opt, build = folder / "opt/yaffle", folder / "build"
    build.mkdir()
    tools = folder / "bin"
    tools.mkdir()
    (tools / "python").symlink_to(sys.executable)
    env = {**environment(), "PATH": f"{tools}:{os.environ['PATH']}", "PIP_NO_INPUT": "1"}
    env.pop("PYTHONPATH", None)
    for step in STEPS:
        if step.stage != "build":
            continue
        if step.word == "COPY":
            *names, target = step.rest.split()
            for name in names:
                place = build / target / Path(name).name if target.endswith("/") else build / target
                place.parent.mkdir(parents=True, exist_ok=True)
                if (ROOT / name).is_dir():
                    shutil.copytree(
                        ROOT / name, place, ignore=shutil.ignore_patterns("__pycache__")
                    )
                else:
                    shutil.copy(ROOT / name, place)
        elif step.word == "RUN":
            line = step.rest.replace("/opt/yaffle", str(opt)).replace("/build", str(build))
            done = subprocess.run(
                ["sh", "-c", line],
                cwd=build,
                env=env,
                capture_output=True,
                text=True,
                timeout=400,
                check=False,
            )
            if "Could not find a version" in done.stderr or "Max retries" in done.stderr:
                pytest.skip("the package index cannot be reached")
            assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return opt


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a PID namespace")
@pytest.mark.skipif(shutil.which("tini") is None, reason="there is no tini")
def test_below_its_process_1_it_serves_stops_in_order_and_takes_its_nodes_along(
    built: Path, tmp_path: Path
) -> None:
    mark = f"container-{os.getpid()}"
    card = Serving(tmp_path, "--allow-local-process")
    entrance = [*of("ENTRYPOINT")[0].args, *of("CMD")[0].args, "--allow-local-process"]
    env = {**card.env, "PATH": f"{built}/bin:{os.environ['PATH']}", "PYTHONFAULTHANDLER": "1"}
    env.pop("PYTHONPATH", None)
    log = (tmp_path / "log").open("wb")
    outer = subprocess.Popen(
        [*BELOW, *entrance],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    )
    try:
        path = card.state_dir / "server.json"
        until(path.exists)
        inner = int(Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text())
        assert b"tini" in Path(f"/proc/{inner}/cmdline").read_bytes()
        inside = ["nsenter", "-t", str(inner), "-p", "-m"]

        def run(*words: str, given: str = "") -> str:
            done = subprocess.run(
                [*inside, *words],
                env=env,
                input=given,
                capture_output=True,
                text=True,
                timeout=200,
                check=False,
            )
            assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
            return done.stdout

        url = re.search(r'"url": ?"([^"]+)"', path.read_text())
        assert url
        until(lambda: httpx.get(f"{url[1]}/health", timeout=60).status_code == 200)
        # The health check, as it is in the file.
        probe = of("HEALTHCHECK")[0].args
        env["HEALTH_URL"] = f"{url[1]}/health"
        run(*probe)

        # A node, orphaned as all of them are, dies: process 1 reaps it.
        run("yaffle", "profile", "create", "page", "-", given=profile(mark))
        for name in ("n1", "n2"):
            run("yaffle", "node", "create", name, "--profile", "page")
        assert len(living(mark)) == 2
        victim = min(living(mark))
        os.kill(victim, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{victim}").exists())

        # docker stop: SIGTERM to process 1. It ends in order, and what is left ends with it.
        os.kill(inner, signal.SIGTERM)
        assert outer.wait(120) == 0
        until(lambda: living(mark) == set())
        assert '"event": "stopped"' in (tmp_path / "log").read_text()
    finally:
        outer.kill()
        outer.wait(60)
        log.close()
