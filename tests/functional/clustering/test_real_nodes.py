"""One node of the clustering API from its making to its end, as a real process of this machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.functional.api.live import SLEEPER, Live, pid_of, running
from tests.waiting import wait_for, wait_until

KIND = "yaffle.local.process"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with running(tmp_path_factory.mktemp("state") / "yaffle", engine=True) as server:
        yield server


def ask(live: Live, method: str, path: str, body: object = None, *, want: int = 202) -> Any:
    with live.client() as client:
        answer = client.request(method, f"/v1{path}", json=body)
    assert answer.status_code == want, answer.text
    return answer


def followed(live: Live, answer: Any) -> Any:
    """Wait for the action that an answer names, and return how it ended."""
    path = answer.headers["location"].partition("/v1")[2]
    return wait_until(
        lambda: ask(live, "GET", path, want=200).json()["action"],
        lambda action: action["status"] in {"SUCCEEDED", "FAILED", "CANCELLED"},
    )


def profile(live: Live, name: str, **properties: object) -> None:
    spec = {"type": KIND, "version": "1.0", "properties": {**SLEEPER, **properties}}
    ask(live, "POST", "/profiles", {"profile": {"name": name, "spec": spec}}, want=201)


def node(live: Live, name: str = "n1", query: str = "") -> Any:
    return ask(live, "GET", f"/nodes/{name}{query}", want=200).json()["node"]


def lives(pid: int) -> bool:
    """Whether it can still act; one that nobody has reaped yet cannot."""
    try:
        said = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return said.rpartition(")")[2].split()[0] != "Z"


def test_from_its_making_to_its_end(live: Live) -> None:
    profile(live, "first")
    profile(live, "second", env={"COLOUR": "green"})
    made = ask(live, "POST", "/nodes", {"node": {"name": "n1", "profile_id": "first"}})
    assert followed(live, made)["status"] == "SUCCEEDED"
    shown = node(live, query="?show_details=True")
    assert (shown["status"], shown["status_reason"]) == ("ACTIVE", "Creation succeeded")
    first = pid_of(shown)
    assert shown["details"]["pid"] == first
    assert "signal.pause" in shown["details"]["command"]

    rebooted = ask(live, "POST", "/nodes/n1/ops", {"reboot": {"type": "soft"}})
    assert followed(live, rebooted)["status"] == "SUCCEEDED"
    second = pid_of(shown)
    assert second != first
    assert node(live)["status_reason"] == "Operation 'reboot' succeeded"

    updated = ask(live, "PATCH", "/nodes/n1", {"node": {"profile_id": "second"}})
    assert updated.json()["node"]["profile_name"] == "first"
    assert followed(live, updated)["status"] == "SUCCEEDED"
    third = pid_of(shown)
    assert node(live)["profile_name"] == "second"
    assert b"COLOUR=green" in Path(f"/proc/{third}/environ").read_bytes().split(b"\0")
    assert not lives(second)

    os.kill(third, signal.SIGKILL)
    # It has to be given a processor to die.
    wait_for(lambda: not lives(third))
    assert followed(live, ask(live, "POST", "/nodes/n1/actions", {"check": {}}))
    gone = node(live)
    assert gone["status"] == "ERROR"
    assert gone["status_reason"].startswith("Check: Node is not ACTIVE.")

    recovered = followed(live, ask(live, "POST", "/nodes/n1/actions", {"recover": {}}))
    assert recovered["status"] == "SUCCEEDED"
    assert recovered["data"] == {"health": {"recover_action": [{"name": "RECREATE"}]}}
    assert node(live)["status"] == "ACTIVE"
    last = pid_of(shown)

    deleted = ask(live, "DELETE", "/nodes/n1")
    assert deleted.json() is None
    assert followed(live, deleted)["status"] == "SUCCEEDED"
    assert not lives(last)
    ask(live, "GET", "/nodes/n1", want=404)


def test_a_stopped_node_can_be_started(live: Live) -> None:
    profile(live, "third")
    body = {"node": {"name": "n2", "profile_id": "third"}}
    assert followed(live, ask(live, "POST", "/nodes", body))["status"] == "SUCCEEDED"
    try:
        shown = node(live, "n2")
        assert followed(live, ask(live, "POST", "/nodes/n2/ops", {"stop": {}}))
        with pytest.raises(AssertionError, match="no process"):
            pid_of(shown)
        assert followed(live, ask(live, "POST", "/nodes/n2/ops", {"start": {}}))
        assert pid_of(shown)
        for op in ("kill", "create", "dance"):
            refused = ask(live, "POST", "/nodes/n2/ops", {op: {}}, want=400).json()["error"]
            assert refused["message"] == (
                f"The requested operation '{op}' is not supported by the profile type '{KIND}-1.0'."
            )
    finally:
        followed(live, ask(live, "DELETE", "/nodes/n2", {"force": True}))


def test_strangers_are_not_adopted(live: Live) -> None:
    body = {"identity": str(os.getpid()), "type": f"{KIND}-1.0"}
    for path in ("/nodes/adopt", "/nodes/adopt-preview"):
        refused = ask(live, "POST", path, body, want=409).json()["error"]
        assert refused["type"] == "FeatureNotSupported"
        assert "bears no marker" in refused["message"]
