"""MISTRAL_WORKFLOW recovers by the workflows of a real Mistral, which act on a real Nova.

Its packages take a minute to install and its tables half a minute to make, so that this is a test
of its own: `make test-mistral`.
"""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.openstack import Lab
from lab.openstack.mistral import MISTRAL
from tests.acceptance.rig import Api, Server, serving
from tests.contract.workflows.targets import NODE
from tests.openstack.cloud import Cloud
from tests.openstack.people import Person, acts, entered, nobody, settings
from tests.waiting import wait_for

from yaffle.drivers.workflows.mistral import MistralWorkflow
from yaffle.engine.runtime.clock import SystemClock
from yaffle.model.ids import OperationId
from yaffle.model.operations import Progress, ProgressState
from yaffle.ports import DriverContext

pytestmark = [
    pytest.mark.skipif(not os.environ.get("YAFFLE_MISTRAL"), reason="make test-mistral asks it"),
    pytest.mark.timeout(900),
]
WORKFLOWS = """
version: "2.0"
say:
  input: [node_id]
  tasks:
    say: {action: std.echo, input: {output: <% $.node_id %>}}
fall:
  input: [node_id]
  tasks:
    fall: {action: std.fail, input: {error_data: no spare parts}}
hang:
  input: [node_id]
  tasks:
    hang: {action: std.sleep, input: {seconds: 600}}
start:
  input: [node_id]
  tasks:
    start: {action: nova.servers_start, input: {server: <% $.node_id %>}}
"""
NAMES = ("say", "fall", "hang", "start")
HANGS_S = 8
PROFILE = {
    "type": "os.nova.server",
    "version": "1.0",
    "properties": {"flavor": "lab.tiny", "image": "lab-image", "networks": "none"},
}
HEAL_S = 180.0
CALL_S = 30.0


def rung(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "MISTRAL_WORKFLOW",
        "params": {"node_id": "{{ node.physical_id }}"},
        "timeout": HANGS_S if name == "hang" else 60,
    }


def policy(*names: str) -> dict[str, Any]:
    detection = {
        "interval": 1, "node_update_timeout": 2, "rise": 1, "fall": 2,
        "detection_modes": [{"type": "NODE_STATUS_POLLING"}],
    }  # fmt: skip
    properties = {"detection": detection, "recovery": {"actions": [rung(name) for name in names]}}
    return {"type": "senlin.policy.health", "version": "1.3", "properties": properties}


@pytest.fixture(scope="module")
def workflows(lab: Lab) -> Iterator[Lab]:
    """The lab, with Mistral in it."""
    services = MISTRAL.start(lab.plan, lab.processes, lab.api)
    yield lab
    lab.processes.stop(services)


@pytest.fixture
def project(workflows: Lab, cloud: Cloud) -> Cloud:
    """A project with four workflows."""
    assert workflows is cloud.lab
    cloud.api.call("POST", "workflow", "/workflows", WORKFLOWS)
    return cloud


def driver(name: str, cloud: str, file: Path, *more: str) -> list[str]:
    return [f'[drivers."{name}"]', f'cloud = "{cloud}"', f'clouds_file = "{file}"', *more]


@pytest.fixture
def yaffle(project: Cloud, tmp_path: Path) -> Iterator[Server]:
    """A server that may ask Mistral, as the project's own user."""
    where = project.name, project.clouds_yaml
    in_place = f"in_place = {json.dumps(NAMES)}"
    lines = ["[engine]", "poll = 0.2", *driver("os.nova.server-1.0", *where)]
    lines += driver("MISTRAL_WORKFLOW", *where, in_place)
    config = tmp_path / "yaffle.toml"
    config.write_text("\n".join(lines) + "\n")
    with serving(tmp_path, "--config", str(config), local_process=False) as server:
        yield server


def executions(cloud: Cloud) -> list[dict[str, Any]]:
    """Return what was executed in the project."""
    found = cloud.api.get("workflow", "/executions")["executions"]
    return [cloud.api.get("workflow", f"/executions/{one['id']}") for one in found]


def watched(api: Api, *names: str) -> str:
    """Make a cluster of one node that is recovered by those workflows; return its server's id."""
    body: Any = {"profile": {"name": "web", "spec": PROFILE}}
    profile = api.post("profiles", body, want=201).json["profile"]["id"]
    body = {"policy": {"name": "care", "spec": policy(*names)}}
    care = api.post("policies", body, want=201).json["policy"]["id"]
    body = {"cluster": {"name": "web", "profile_id": profile, "desired_capacity": 1}}
    cluster = api.post("clusters", body).json["cluster"]["id"]
    api.until(f"clusters/{cluster}", lambda c: c["status"] == "ACTIVE", within_s=HEAL_S)
    body = {"policy_attach": {"policy_id": care, "enabled": True}}
    api.post(f"clusters/{cluster}/actions", body)

    def node() -> Any:
        (found,) = api.get("nodes")["nodes"]
        return found if found["health"] == "healthy" else None

    return str(wait_for(node, within_s=HEAL_S, every_s=0.2)["physical_id"])


def over(api: Api) -> dict[str, Any]:
    """Wait for the end of the one incident, and return it."""

    def look() -> Any:
        found = api.get("/yaffle/v1/incidents")["incidents"]
        return found[0] if found and found[0]["state"] not in {"open", "recovering"} else None

    ident = wait_for(look, within_s=HEAL_S, every_s=0.2)["id"]
    return dict(api.get(f"/yaffle/v1/incidents/{ident}"))


def test_each_workflow_is_begun_once_read_to_its_end_and_believed_no_further_than_that(
    project: Cloud, yaffle: Server
) -> None:
    api = Api(yaffle.root)
    try:
        server = watched(api, *NAMES)
        project.guest(server).off()
        told = over(api)
    finally:
        api.close()
    story = json.dumps(told)
    assert told["incident"]["state"] == "recovered", story
    project.until(server, "ACTIVE")
    # Mistral counts in seconds, and we tell them in the order in which they were begun.
    done = sorted(executions(project), key=lambda one: story.find(one["id"]))
    assert [one["workflow_name"] for one in done] == list(NAMES), done
    states = [one["state"] for one in done]
    assert states == ["SUCCESS", "ERROR", "CANCELLED", "SUCCESS"]
    for one in done:
        assert json.loads(one["input"]) == {"node_id": server}
        note = json.loads(one["description"])
        assert note["yaffle_operation"] == one["id"]
        assert one["id"] in story
    assert "no spare parts" in story, story
    assert "was cancelled" in story, story


def test_a_projects_workflow_is_begun_by_its_own_users_leave(
    project: Cloud, tmp_path: Path
) -> None:
    lab, person = project.lab, Person(who=project.credentials)
    with nobody(lab) as service:
        config = settings(lab, service, tmp_path)
        at = driver("MISTRAL_WORKFLOW", service.cloud, tmp_path / "clouds.yaml")
        more = [*at, 'credentials = "projects"', 'in_place = ["start"]']
        config.write_text("\n".join([config.read_text(), *more]) + "\n")
        flags = ("--config", str(config))
        with serving(tmp_path, *flags, local_process=False) as server, entered(server, person):
            identity = watched(person.api, "start")
            project.guest(identity).off()
            told = over(person.api)
    assert told["incident"]["state"] == "recovered", told
    (done,) = executions(project)
    assert (done["state"], done["project_id"]) == ("SUCCESS", project.credentials.project_id)
    mine = (project.credentials.user_id, project.credentials.project_id)
    assert acts(lab, identity)[0] == ("start", *mine)


def test_what_a_real_one_answers_means_what_we_take_it_for(project: Cloud) -> None:
    where = {"cloud": project.name, "clouds_file": str(project.clouds_yaml)}
    clock = SystemClock()
    ours = MistralWorkflow(DriverContext(clock=clock, state_dir=Path(), settings=where))
    given = {"node_id": "server-1"}

    async def begin(name: str, ident: str, params: dict[str, str]) -> Progress:
        return await ours.submit(
            name, params, NODE, operation_id=OperationId(ident), timeout_s=60, deadline_s=CALL_S
        )

    async def ask(ident: str) -> Progress:
        return await ours.poll("say", NODE, operation_id=OperationId(ident), deadline_s=CALL_S)

    async def scene() -> None:
        ident, nobody_knows = str(uuid.uuid4()), str(uuid.uuid4())
        assert (await ask(nobody_knows)).state is ProgressState.ABSENT
        for name, params, said in (
            ("unheard-of", given, "Workflow not found"),
            ("say", {}, "Invalid input"),
            ("say", {**given, "x": "1"}, "Invalid input"),
        ):
            refused = await begin(name, nobody_knows, params)
            assert refused.state is ProgressState.FAILED, refused
            assert said in refused.detail
        assert (await ask(nobody_knows)).state is ProgressState.ABSENT
        # Whoever does not know whether it has begun asks again, and at the same time.
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(begin("say", ident, given))
        async with asyncio.timeout(60):
            while (done := await ask(ident)).state is ProgressState.RUNNING:
                await clock.sleep(0.3)
        assert done.state is ProgressState.DONE, done
        assert (await begin("say", ident, given)).state is ProgressState.DONE
        assert [one["id"] for one in executions(project)] == [ident]

    asyncio.run(scene())
