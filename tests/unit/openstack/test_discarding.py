"""Which images are deleted unasked: only those that a recovery took, and that nobody waits for."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace
from tests.unit.openstack.standing import Nova, World, of

from yaffle.drivers.profiles.nova_server import discarding
from yaffle.drivers.profiles.nova_server.documents import Image
from yaffle.model.operations import ProgressState

DONE, RUNNING, ABSENT = ProgressState.DONE, ProgressState.RUNNING, ProgressState.ABSENT
LATE = Image(
    id="i-1",
    name="yaffle-web-o",
    status="saving",
    owner="p",
    operation="o",
    purpose="recovery",
)


@dataclass
class Glance(Nova):
    """With a Glance beside it."""

    images: list[Image] = field(default_factory=list)

    def images_of(self, operation_id: str) -> list[Image]:
        return [image for image in self.images if image.operation == operation_id]

    def delete_image(self, ident: str) -> None:
        self.asked.append(f"delete {ident}")
        self.images = [image for image in self.images if image.id != ident]


def test_one_that_is_late_is_deleted_by_a_submit_and_waited_for_until_nova_has_noticed() -> None:
    nova = Glance(of("image_uploading", "SHUTOFF", 4), images=[LATE])
    world = World(nova)
    assert world.do(discarding.poll, "DISCARD").state is ABSENT
    assert not nova.asked
    assert world.do(discarding.submit, "DISCARD").state is RUNNING
    assert nova.asked == ["delete i-1"]
    assert world.do(discarding.poll, "DISCARD").state is RUNNING
    nova.server = of(None, "SHUTOFF", 4)
    assert world.do(discarding.poll, "DISCARD").state is DONE


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(replace(LATE, status="active"), id="ready"),
        pytest.param(replace(LATE, name="before the upgrade"), id="inherited-by-a-persons"),
        pytest.param(replace(LATE, owner="another"), id="of-another-project"),
        pytest.param(replace(LATE, purpose=""), id="asked-for-by-a-person"),
        pytest.param(replace(LATE, operation="other"), id="of-another-operation"),
    ],
)
def test_any_other_one_is_left(image: Image) -> None:
    nova = Glance(of(None, "SHUTOFF", 4), images=[image])
    assert World(nova).do(discarding.submit, "DISCARD").state is DONE
    assert not nova.asked
