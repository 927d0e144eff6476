"""Of which servers Nova takes an image, and what is said where it takes none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.openstack.standing import Nova, World, of

from yaffle.drivers.profiles.nova_server.api.documents import Disk, Image
from yaffle.drivers.profiles.nova_server.operations import disk_image
from yaffle.drivers.profiles.nova_server.tracking.verbs import IMAGED, OPERATIONS
from yaffle.errors import Conflict
from yaffle.model.operations import ProgressState
from yaffle.policy import parse_document

FAILED, RUNNING = ProgressState.FAILED, ProgressState.RUNNING


@dataclass
class Images(Nova):
    """It takes images of servers as its big sister does (`check_instance_state` of `snapshot`)."""

    images: list[Image] = field(default_factory=list)

    def images_of(self, operation_id: str) -> list[Image]:
        return self.images

    def do(self, ident: str, body: Mapping[str, Any], **_: object) -> Any:
        assert self.server is not None
        self.asked.extend(body)
        if self.server.status not in {"ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED"}:
            state = self.server.status.lower()
            raise Conflict(f"Cannot 'createImage' instance s while it is in vm_state {state}")
        if self.server.task_state is not None:
            raise Conflict(f"Cannot 'createImage' while in task_state {self.server.task_state}")
        return type("Answer", (), {"request_id": "r-1"})


def server(status: str, task: str | None = None) -> Any:
    return replace(of(task, status), image={"id": "i-1"})


@pytest.mark.parametrize("status", IMAGED)
def test_an_image_is_asked_for_where_nova_takes_one(status: str) -> None:
    said = World(Images(server(status))).do(disk_image.submit, "SNAPSHOT")
    assert said.state is RUNNING, said.detail


@pytest.mark.parametrize(
    "status", ["ERROR", "BUILD", "RESCUE", "SHELVED_OFFLOADED", "SOFT_DELETED"]
)
def test_a_refusal_says_of_what_it_is_and_in_novas_words(status: str) -> None:
    said = World(Images(server(status))).do(disk_image.submit, "SNAPSHOT")
    assert said.state is FAILED
    assert said.detail == (
        f"Nova takes no image of a server in {status}: Cannot 'createImage' instance s while it is in"
        f" vm_state {status.lower()}"
    )


@pytest.mark.parametrize("status", ["ACTIVE", "REBOOT", "MIGRATING"])
def test_while_something_else_is_done_to_it_that_is_no_refusal(status: str) -> None:
    said = World(Images(server(status, "rebooting"))).do(disk_image.submit, "SNAPSHOT")
    assert said.state is RUNNING
    assert said.detail.startswith("later")


@pytest.mark.parametrize(("goes", "said"), [(True, "deleted with it: v-1"), (False, "outlive it")])
def test_of_a_volume_is_said_whether_it_goes_with_its_server(goes: bool, said: str) -> None:
    volumes = [Disk(id="v-1", delete_on_termination=goes), Disk(id="v-2")]
    nova = Images(replace(of(None), image="", volumes=volumes))
    done = World(nova).do(disk_image.submit, "SNAPSHOT")
    assert done.state is FAILED
    assert done.detail.startswith("it boots from a volume, of which no snapshot is taken")
    assert said in done.detail
    assert not nova.asked


@pytest.mark.parametrize("take", [True, False])
def test_the_author_of_a_policy_is_told_when_it_takes_none(take: bool) -> None:
    document = {
        "type": "senlin.policy.health",
        "version": "1.3",
        "properties": {
            "detection": {"detection_modes": [{"type": "NODE_STATUS_POLLING"}]},
            "recovery": {"snapshot": {"take": take}},
        },
    }
    warnings = parse_document(document, profile_operations=OPERATIONS).warnings
    told = [text for text in warnings if "of one in ERROR" in text]
    assert bool(told) is take
    assert not parse_document(document).warnings, (
        "for every profile is not known what this one takes"
    )
