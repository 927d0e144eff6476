"""The fence agent that marks: it stands for no device that switches, and is a fence agent like others."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from yaffle.integrations import fence_yaffle
from yaffle.integrations.fence_yaffle import misplaced

AGENT = Path(fence_yaffle.__file__)


def configuration(*levels: str) -> str:
    rows = "".join(
        f'<fencing-level id="l{i}" index="{i}" target="h1" devices="{devices}"/>'
        for i, devices in enumerate(levels, 1)
    )
    return f"""<configuration><resources>
<primitive id="power" class="stonith" type="fence_ipmilan"/>
<primitive id="mark" class="stonith" type="fence_yaffle"/>
<primitive id="mark2" class="stonith" type="fence_yaffle"/>
<primitive id="other" class="ocf" type="fence_yaffle"/>
</resources><fencing-topology>{rows}</fencing-topology></configuration>"""


@pytest.mark.parametrize(
    ("levels", "wrong"),
    [
        (["power,mark"], ""),
        (["power, mark", "power,mark2"], ""),
        (["power,power2,mark"], ""),
        # What is not ours may be anything; only our own agents are known to switch nothing.
        (["other,mark"], ""),
        (["mark"], "mark is not the last device of level l1"),
        (["mark,power"], "mark is not the last device of level l1"),
        (["power,mark,mark2"], "mark is not the last device of level l1"),
        (["mark2,mark"], "mark2 is not the last device"),
        (["power,mark", "mark"], "level l2"),
        (["power"], "no level of the fencing topology names it"),
        ([], "no level of the fencing topology names it"),
    ],
)
def test_it_has_to_come_last_after_a_device_that_switches(levels, wrong):
    said = "; ".join(misplaced(configuration(*levels)))
    assert (wrong in said) if wrong else (said == "")


@pytest.mark.parametrize(
    ("target", "is_ours"),
    [
        ('target="h1"', True),
        ('target="h2"', False),
        ('target-pattern="h[0-9]+"', True),
        ('target-pattern="^c"', False),
        ('target-attribute="rack" target-value="7"', True),
        ('target-attribute="rack" target-value="8"', False),
        ('target-attribute="row" target-value="7"', False),
    ],
)
def test_a_host_without_a_level_of_its_own_is_not_marked(target: str, is_ours: bool) -> None:
    """Pacemaker lets any device fence it that says it can, and that may be the mark alone."""
    nodes = '<nodes><node uname="h1"><instance_attributes><nvpair name="rack" value="7"/>'
    nodes += "</instance_attributes></node></nodes>"
    text = configuration("power,mark").replace('target="h1"', target)
    text = text.replace("<configuration>", f"<configuration>{nodes}")
    said = list(misplaced(text, "h1"))
    assert (said == []) is is_ours
    assert list(misplaced(text)) == [], "as a whole it is well"
    if said:
        assert "no level of the fencing topology for h1 names it" in said[0]


def ask(*options: str, folder: Path, arguments: tuple[str, ...] = ()) -> tuple[int, str]:
    # The programs that it would call are those of the folder.
    code = f"import sys; sys.argv[0] = 'fence_yaffle'; sys.path.insert(0, {str(AGENT.parent)!r})\n"
    code += "import fence_yaffle as f\n"
    code += f"f.ENVIRONMENT = {{**f.ENVIRONMENT, 'PATH': {str(folder)!r}}}; f.CALL_S = 2\n"
    code += f"import os; os.environ['PATH'] = {str(folder)!r}\nsys.exit(f.main())\n"
    done = subprocess.run(
        ["/usr/bin/python3", "-SE", "-c", code, *arguments],
        input="\n".join(options),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={"PATH": os.defpath},
    )
    return done.returncode, done.stdout + done.stderr


def put(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Return a folder of Pacemaker's programs that write down how they were called."""
    (tmp_path / "cib").write_text(configuration("power,mark"))
    put(tmp_path, "cibadmin", f"exec /bin/cat {tmp_path}/cib")
    put(
        tmp_path,
        "crm_attribute",
        f'echo "$*" >> {tmp_path}/calls; case "$*" in *query*) exit 105;; esac',
    )
    put(tmp_path, "attrd_updater", f'echo "attrd $*" >> {tmp_path}/calls')
    return tmp_path


def calls(cluster: Path) -> list[str]:
    return (cluster / "calls").read_text().splitlines() if (cluster / "calls").exists() else []


def test_it_describes_itself_as_fence_agents_do(cluster: Path) -> None:
    code, said = ask("action=metadata", folder=cluster)
    root = ET.fromstring(said)
    assert (code, root.get("name")) == (0, "fence_yaffle")
    actions = {one.get("name") for one in root.iter("action")}
    assert actions == {"on", "off", "reboot", "status", "monitor", "metadata"}
    code, by_argument = ask(folder=cluster, arguments=("-o", "metadata"))
    assert by_argument == said


def test_off_and_reboot_mark_the_host_that_is_named(cluster: Path) -> None:
    for options in (["action=off", "nodename=h1"], ["action=reboot", "plug=h1", "# comment"]):
        assert ask(*options, folder=cluster) == (0, "")
    marks = [call for call in calls(cluster) if "--update" in call]
    assert len(marks) == 2
    assert all("--node h1" in mark and "--lifetime forever" in mark for mark in marks)
    assert not any(call.startswith("attrd") for call in calls(cluster))
    assert ask("action=off", "nodename=h1", "attrd=evacuate", folder=cluster) == (0, "")
    assert calls(cluster)[-1] == "attrd --node h1 --name evacuate --update yes"


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        ("1795938104", "1795938104,"),
        ("yes", ""),
        (",".join(str(n) for n in range(1, 12)), "5,6,7,8,9,10,11,"),
    ],
)
def test_marks_that_nobody_has_taken_over_stay_beside_the_new_one(
    cluster: Path, before: str, kept: str
) -> None:
    text = f'case "$*" in *query*) echo "{before}";; *) echo "$*" > {cluster}/calls;; esac'
    put(cluster, "crm_attribute", text)
    assert ask("action=off", "nodename=h1", folder=cluster) == (0, "")
    value = calls(cluster)[0].split("--update ")[1]
    assert value.startswith(kept)
    assert len(value.split(",")) == kept.count(",") + 1


@pytest.mark.parametrize("action", ["on", "status"])
def test_what_is_not_its_task_is_done_at_once(cluster: Path, action: str) -> None:
    assert ask(f"action={action}", "nodename=h1", folder=cluster) == (0, "")
    assert calls(cluster) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["action=off"], "no host is named"),
        (["action=dance"], "unknown action 'dance'"),
    ],
)
def test_what_it_cannot_do_fails_and_says_why(cluster: Path, options: list[str], said: str) -> None:
    code, text = ask(*options, folder=cluster)
    assert code == 1
    assert said in text


@pytest.mark.parametrize("action", ["off", "monitor"])
def test_in_the_place_of_a_device_that_switches_it_fails(cluster: Path, action: str) -> None:
    (cluster / "cib").write_text(configuration("mark"))
    code, said = ask(f"action={action}", "nodename=h1", folder=cluster)
    assert (code, calls(cluster)) == (1, [])
    assert "after one that switches off" in said


@pytest.mark.parametrize(
    ("program", "text", "said"),
    [
        ("crm_attribute", "echo 'no quorum' >&2; exit 1", "crm_attribute ended with 1: no quorum"),
        ("cibadmin", "exit 102", "cibadmin ended with 102"),
        ("cibadmin", "echo nothing", "syntax error"),
        ("cibadmin", "exec /bin/sleep 60", "timed out"),
    ],
)
def test_a_mark_that_cannot_be_written_fails_the_fencing(
    cluster: Path, program: str, text: str, said: str
) -> None:
    put(cluster, program, text)
    code, told = ask("action=off", "nodename=h1", folder=cluster)
    assert code == 1
    assert said in told


def test_it_runs_as_one_file_with_the_standard_library_alone(tmp_path: Path) -> None:
    alone = tmp_path / "fence_yaffle"
    alone.write_bytes(AGENT.read_bytes())
    alone.chmod(0o755)
    done = subprocess.run(
        [alone], input="action=metadata\n", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_off_of_a_host_that_has_no_level_fails_and_marks_nothing(cluster: Path) -> None:
    code, said = ask("action=off", "nodename=h2", folder=cluster)
    assert (code, calls(cluster)) == (1, [])
    assert "no level of the fencing topology for h2 names it" in said
