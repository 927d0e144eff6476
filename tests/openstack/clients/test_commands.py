"""`openstack cluster …` of python-senlinclient against Yaffle: every command, in a real cloud."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from tests.openstack.clients import environment
from tests.openstack.clients.step import Shell, Step
from tests.openstack.clients.story import CANCELLED, STORY
from tests.openstack.cloud import Cloud
from tests.openstack.yaffles import serving_cloud

SERVER: Final = """\
type: os.nova.server
version: "1.0"
properties:
  flavor: lab.tiny
  image: lab-image
  networks: none
"""
CARE: Final = """\
type: senlin.policy.deletion
version: "1.1"
properties:
  criteria: OLDEST_FIRST
"""
WORDS: Final = """
from importlib.metadata import entry_points
for found in entry_points(group="openstack.clustering.v1"):
    print(found.name.removeprefix("cluster_").replace("_", " "))
"""
SLOW_S: Final = 600.0
"""So long Nova would take for a server that is cancelled meanwhile; it is let go of afterwards."""


@pytest.fixture
def shell(cloud: Cloud, tmp_path: Path) -> Iterator[Shell]:
    """`openstack` of a member of the project whose credential Yaffle acts with."""
    who = cloud.credentials
    for name, text in (("web", SERVER), ("db", SERVER), ("care", CARE)):
        (tmp_path / f"{name}.yaml").write_text(text)
    with serving_cloud(cloud, tmp_path, f"clients-{who.project}") as (_, region):
        shell = Shell(region.clouds_yaml(who, tmp_path), who.cloud, tmp_path)
        try:
            yield shell
        finally:
            shell.close()


def test_every_command_does_what_it_says(shell: Shell, cloud: Cloud) -> None:
    shell.kept["foreign"] = cloud.server("foreign")
    wrong = [found for step in STORY if (found := shell.wrong(step))]
    assert not wrong, "\n\n".join(wrong)
    with ExitStack() as slow:
        for host in cloud.lab.hosts:
            only = cloud.credentials.project_id
            slow.enter_context(cloud.lab.slow(host, "spawn", SLOW_S, only))
        wrong = [found for step in CANCELLED if (found := shell.wrong(step))]
    assert not wrong, "\n\n".join(wrong)


def test_no_command_is_left_out() -> None:
    done = subprocess.run(
        [environment.provide(), "-c", WORDS],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    commands = set(done.stdout.splitlines())
    assert len(commands) == 60
    told = {name for name in commands for step in (*STORY, *CANCELLED) if _is(step, name)}
    assert told == commands


def _is(step: Step, command: str) -> bool:
    """Whether a step is this command: `policy list` is not `policy`."""
    return step.words == command or step.words.startswith(f"{command} ")
