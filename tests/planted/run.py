"""Plant each known bug in a copy of the tree and see the tests that it names fail.

A patch begins with a line of what the bug is, then `Caught-by:` and the tests, each of which must
fail by itself. A patch that no longer applies, or a test that passes, fails the run at its end.

    python -m tests.planted.run [NAME ...]          all of them, or those whose path holds a NAME
    python -m tests.planted.run --first core/ engine/   what share of them `make test` finds
    python -m tests.planted.run --everywhere NAME   ask every suite of the core, to fill in Caught-by
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.tiers import TIERS

ROOT = Path(__file__).resolve().parents[2]
PLANTED = Path(__file__).resolve().parent
LABEL = "Caught-by:"
SUITES = (
    "tests/unit/core",
    "tests/scenarios",
    "tests/model/test_cluster_machine.py",
    "tests/model/test_ladder_machine.py",
)
TIMEOUT_S = 120
FAILED = 1  # pytest's exit status for "tests were run and some failed"


class DoesNotApply(Exception):
    """The patch does not fit the tree any more; the message is git's."""


class DidNotRun(Exception):
    """A test neither passed nor failed; the message is what it said."""


def caught_by(patch: Path) -> list[str]:
    """Return the tests that the patch names."""
    for line in patch.read_text().splitlines():
        if line.startswith(LABEL):
            return line.removeprefix(LABEL).split()
    raise SystemExit(f"{patch}: no line begins with {LABEL}")


def planted_tree(patch: Path | None, into: Path) -> Path:
    """Copy what tests need, and apply the patch to the copy."""
    ignore = shutil.ignore_patterns("__pycache__", ".hypothesis", "*.db")
    for name in ("src", "tests", "docs", "lab", "packaging"):
        shutil.copytree(ROOT / name, into / name, ignore=ignore)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, into)
    if patch is not None:
        apply(patch, into)
    return into


def apply(patch: Path, tree: Path) -> None:
    """Change the tree; raise DoesNotApply where the patch does not fit."""
    done = subprocess.run(
        ["git", "apply", "--unsafe-paths", str(patch)],
        check=False,
        # Inside a repository git would look for the files from its top, and skip them silently.
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)},
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode != 0:
        raise DoesNotApply(done.stderr.strip())


def fails(tree: Path, test: str, worlds: str = "8") -> bool:
    """Whether the test fails in the tree; anything else than a failed test is an error of ours."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("YAFFLE_SIM_RUNS", None)
    environment["YAFFLE_SIM_SHRINK"] = "no"  # that it fails is all that is asked
    environment["YAFFLE_SIM_WORLDS"] = worlds  # `CATCHES` of tests/sim/test_worlds.py
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", test]
    done = subprocess.run(
        command,
        check=False,
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode not in {0, FAILED}:
        raise DidNotRun(f"{test} did not run in {tree}:\n{done.stdout}\n{done.stderr}")
    return done.returncode == FAILED


def check(patch: Path, tests: Sequence[str], *, first: bool = False) -> dict[str, bool]:
    """Return for each test whether it caught the bug; with `first`, as `make test` plays them."""
    found: dict[str, bool] = {}
    with tempfile.TemporaryDirectory(prefix="planted-") as place:
        tree = planted_tree(patch, Path(place))
        for test in tests:
            found[test] = fails(tree, test, worlds="" if first else "8")
            if first and found[test]:
                break
    return found


def of_the_first_tier(tests: Sequence[str]) -> list[str]:
    """Return those that `make test` runs."""
    return [t for t in tests if t.startswith(tuple(f"{folder}/" for folder in TIERS["first"]))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="only patches whose path holds one of these")
    parser.add_argument("--everywhere", action="store_true", help="ask every suite of the core")
    parser.add_argument("--first", action="store_true", help="say what share `make test` finds")
    asked = parser.parse_args()
    patches = [
        p
        for p in sorted(PLANTED.glob("*/*.patch"))
        if not asked.names or any(name in f"{p.parent.name}/{p.name}" for name in asked.names)
    ]
    escaped, unfit, missed = 0, 0, 0
    with ThreadPoolExecutor(max_workers=2) as pool:
        work = []
        for patch in patches:
            tests = SUITES if asked.everywhere else caught_by(patch)
            tests = of_the_first_tier(tests) if asked.first else tests
            work.append((patch, pool.submit(check, patch, tests, first=asked.first)))
        for patch, future in work:
            try:
                results = future.result()
            except (DoesNotApply, DidNotRun, subprocess.TimeoutExpired) as error:
                unfit += 1
                print(f"UNFIT    {patch.stem:34} {type(error).__name__}: {error}", flush=True)
                continue
            for test, caught in results.items():
                print(f"{'caught ' if caught else 'ESCAPED'}  {patch.stem:34} {test}", flush=True)
                escaped += not caught
            if asked.first and not any(results.values()):
                missed += 1
                print(f"MISSED   {patch.stem:34} by what make test runs of its tests", flush=True)
    print(f"{len(patches) - unfit} planted, {escaped} escaped, {unfit} unfit")
    if asked.first:
        print(f"make test finds {len(patches) - unfit - missed} of {len(patches)}")
    return 1 if (escaped and not (asked.everywhere or asked.first)) or unfit or not patches else 0


if __name__ == "__main__":
    sys.exit(main())
