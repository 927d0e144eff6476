"""`yaffle policy validate` and the rest of what works without any server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.functional.cli.support import POLICY, run, run_here

from yaffle.policy import parse


def test_a_good_document_is_accepted_with_its_worst_case(tmp_path: Path) -> None:
    file = tmp_path / "good.yaml"
    file.write_text(POLICY)
    done = run_here("policy", "validate", str(file), "--profile-type", "yaffle.local.process-1.0")
    assert (done.code, done.err) == (0, "")
    assert f"{file}: accepted, senlin.policy.health 1.3\n" in done.out
    sums = re.search(r"^  detect \+ .*fence \+ recover <= ([\d.]+) s$", done.out, re.MULTILINE)
    assert sums, done.out
    assert float(sums[1]) == pytest.approx(parse(POLICY).arithmetic.total_s)
    for line in parse(POLICY).arithmetic.lines():
        assert f"  {line}\n" in done.out


def test_json_carries_the_numbers(tmp_path: Path) -> None:
    found = run_here("policy", "validate", "-", "--json", given=POLICY).json
    assert (found["valid"], found["source"], found["version"]) == (True, "stdin", "1.3")
    assert found["arithmetic"] == parse(POLICY).arithmetic.as_json()


def test_warnings_do_not_refuse() -> None:
    text = POLICY.replace("fencing: [COMPUTE]", "node_force_recreate: true")
    done = run_here("policy", "validate", "-", given=text)
    assert done.code == 0
    assert done.err.startswith("warning: stdin:")


SCALING = """\
type: senlin.policy.scaling
version: "1.0"
properties: {event: CLUSTER_SCALE_OUT, adjustment: {number: 2}}
"""


def test_a_policy_that_heals_nothing_has_no_worst_case() -> None:
    done = run_here("policy", "validate", "-", given=SCALING)
    assert (done.code, done.out) == (0, "stdin: accepted, senlin.policy.scaling 1.0\n")
    found = run_here("policy", "validate", "-", "--json", given=SCALING).json
    assert (found["type"], found["arithmetic"]) == ("senlin.policy.scaling", None)


def test_an_unknown_type_is_told_with_its_place_and_what_is_known() -> None:
    done = run_here("policy", "validate", "-", given=SCALING.replace("scaling", "scalling"))
    assert done.code == 2
    assert "stdin:1:7 type: unknown policy type 'senlin.policy.scalling'" in done.err
    assert "did you mean senlin.policy.scaling?" in done.err
    assert "senlin.policy.batch" in done.err


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        pytest.param("fall: 2", "fal: 2", "8:5 detection.fal: unknown key", id="key"),
        pytest.param("interval: 1", "interval: often", "5:15 detection.interval: ", id="type"),
        pytest.param("RECREATE", "REBILD", "14:16 recovery.actions.0.name: ", id="operation"),
        pytest.param("properties:", "properties: [", "", id="yaml"),
        pytest.param('"1.3"', '"9.9"', "2:10 version: ", id="version"),
    ],
)
def test_every_fault_has_its_line_and_column(
    old: str, new: str, place: str, tmp_path: Path
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(POLICY.replace(old, new, 1))
    words = ("policy", "validate", str(file), "--profile-type", "yaffle.local.process-1.0")
    done = run_here(*words)
    assert (done.code, done.out) == (2, "")
    assert f"{file}:{place}" in done.err, done.err
    found = run_here(*words, "--json")
    assert found.code == 2
    assert found.json["valid"] is False
    fault = found.json["errors"][0]
    assert f"{file}:{fault['line']}:{fault['column']}" in done.err
    assert fault["text"] in done.err


def test_all_faults_are_told_at_once() -> None:
    text = POLICY.replace("fall: 2", "fall: x").replace("rise: 1", "rise: y")
    done = run_here("policy", "validate", "-", given=text)
    assert "stdin:7:11 detection.rise" in done.err
    assert "stdin:8:11 detection.fall" in done.err
    assert "stdin: refused, 2 faults" in done.err


def test_what_cannot_be_read_is_a_wrong_use(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    for file, text in (
        (tmp_path / "none", "No such file"),
        (tmp_path, "Is a dir"),
        (binary, "UTF-8"),
    ):
        done = run_here("policy", "validate", str(file))
        assert done.code == 2
        assert text in done.err
        assert "Traceback" not in done.err
    done = run_here("policy", "validate", "-", "--profile-type", "nova", given=POLICY)
    assert (done.code, "yaffle.local.process-1.0" in done.err) == (2, True)


def test_doctor_works_with_the_server_down(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    words = ("doctor", "--state-dir", str(tmp_path), "--server", "http://127.0.0.1:9")
    done = run_here(*words)
    assert done.code == 1
    assert f"chmod 700 {tmp_path}" in done.out
    tmp_path.chmod(0o700)
    done = run_here(*words, "--json")
    assert (done.code, done.json["status"]) == (5, "away")
    config = tmp_path / "yaffle.toml"
    config.write_text("[engine]\nleese = 1\n")
    done = run_here(*words, "--config", str(config))
    assert (done.code, "engine.leese" in done.out) == (1, True)


def test_a_database_is_made_and_checked_without_a_server(tmp_path: Path) -> None:
    place = ("--state-dir", str(tmp_path / "state"))
    assert run_here("db", "check", *place).code == 2
    assert run_here("db", "migrate", *place).code == 0
    assert run_here("db", "check", *place).code == 0
    assert run_here("db", "prune", *place).out == "removed: nothing is old enough\n"


def test_version_and_help_are_quick_because_nothing_heavy_is_imported() -> None:
    assert run("--version").out.startswith("yaffle 0.")
    done = run("--help")
    assert done.code == 0
    assert "Exit codes: 0 done" in " ".join(done.out.split())
    assert run("no-such-command").code == 2
    assert run("serve", "--nonsense").code == 2


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        pytest.param("yaffle clus", "cluster", id="group"),
        pytest.param("yaffle cluster sc", "scale-out", id="command"),
        pytest.param("yaffle node list --st", "--status", id="option"),
    ],
)
def test_the_shell_completes_words(line: str, offered: str) -> None:
    words = line.split()
    env = {
        "_YAFFLE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = run(env=env)
    assert offered in done.out.split(), done


def test_a_document_that_is_too_large_is_told_with_its_real_size(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    # Cut in the middle of a character it must not become a fault of the encoding.
    file.write_text("#" + "ä" * 200_000)
    done = run_here("policy", "validate", str(file))
    assert done.code == 2
    assert f"{file}: 400001 bytes; at most 262144 are read" in done.err
    found = run_here("policy", "validate", str(file), "--json")
    assert (found.code, found.json["valid"]) == (2, False)
    piped = run_here("policy", "validate", "-", given="#" * 300_000)
    assert "stdin: more than 262144 bytes; at most 262144 are read" in piped.err


def test_one_check_is_one_check() -> None:
    text = (
        POLICY.replace("fall: 2", "fall: 1")
        .replace("node_update_timeout: 5", "x")
        .replace("interval: 1", "interval: 10")
        .replace("    x\n", "    node_update_timeout: 9\n")
    )
    done = run_here("policy", "validate", "-", given=text)
    assert "less than 1 check of 10 s" in done.err
