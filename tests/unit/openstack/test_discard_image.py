"""Which images are deleted unasked: only those that a recovery took, and that nobody waits for."""

from __future__ import annotations

from dataclasses import dataclass, field
from dataclasses import replace as replace_target

import pytest
from msgspec.structs import replace
from tests.unit.openstack.standing import Nova, World, of

from yaffle.drivers.profiles.nova_server.api.documents import Image
from yaffle.drivers.profiles.nova_server.operations import discard_image
from yaffle.errors import Forbidden
from yaffle.model.ids import ClusterId
from yaffle.model.operations import Progress, ProgressState

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
    used: dict[str, str] = field(default_factory=dict)
    protected: bool = False

    def images_of(self, operation_id: str) -> list[Image]:
        return [image for image in self.images if image.operation == operation_id]

    def images_with(self, **which: str) -> list[Image]:
        names = {"cluster_node_id": "node", "cluster_id": "cluster", "yaffle_purpose": "purpose"}
        wanted = {names[key]: value for key, value in which.items()}
        return [i for i in self.images if all(getattr(i, k) == v for k, v in wanted.items())]

    def built_from(self, image: str) -> str:
        return self.used.get(image, "")

    def delete_image(self, ident: str) -> None:
        if self.protected:
            raise Forbidden("it is protected")
        self.asked.append(f"delete {ident}")
        self.images = [image for image in self.images if image.id != ident]


def test_one_that_is_late_is_deleted_by_a_submit_and_waited_for_until_nova_has_noticed() -> None:
    nova = Glance(of("image_uploading", "SHUTOFF", 4), images=[LATE])
    world = World(nova)
    assert world.do(discard_image.poll, "DISCARD").state is ABSENT
    assert not nova.asked
    assert world.do(discard_image.submit, "DISCARD").state is RUNNING
    assert nova.asked == ["delete i-1"]
    assert world.do(discard_image.poll, "DISCARD").state is RUNNING
    nova.server = of(None, "SHUTOFF", 4)
    assert world.do(discard_image.poll, "DISCARD").state is DONE


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
    assert World(nova).do(discard_image.submit, "DISCARD").state is DONE
    assert not nova.asked


def taken(number: int, *, node: str = "n", status: str = "active", **words: str) -> Image:
    """An image of a recovery, the later the higher its number."""
    return replace(
        LATE,
        id=f"i-{number}",
        name=f"yaffle-web-o{number}",
        operation=f"o{number}",
        status=status,
        created_at=f"2026-01-{number:02}",
        node=node,
        **{"cluster": "c", **words},
    )


def swept(nova: Glance, *, every: bool = False, spared: list[str] | None = None) -> Progress:
    """Have images deleted until nothing is to be done; return the end."""
    world = World(nova)
    world.target = replace_target(world.target, cluster_id=ClusterId("c"))
    params = {"every": every, "spared": spared or []}
    assert world.do(discard_image.poll, "DISCARD", params=params).state is ABSENT
    assert not nova.asked, "a poll deletes nothing"
    world.do(discard_image.submit, "DISCARD", params=params)
    return world.do(discard_image.poll, "DISCARD", params=params)


def test_the_newest_of_a_node_are_kept() -> None:
    images = [taken(1), taken(3), taken(2), taken(4), taken(5, status="saving"), taken(9, node="m")]
    nova = Glance(None, images=images)
    assert swept(nova).state is DONE
    assert sorted(nova.asked) == ["delete i-1", "delete i-2"], "what is not ready is none of them"


def test_the_newest_of_a_cluster_are_kept() -> None:
    images = [taken(number, node=f"n{number}") for number in range(1, 24)]
    nova = Glance(None, images=[*images, taken(25, cluster="another")])
    assert swept(nova).state is DONE
    assert nova.asked == ["delete i-3", "delete i-2", "delete i-1"]


@pytest.mark.parametrize("every", [False, True])
def test_what_is_in_use_or_may_be_booted_or_is_not_ours_is_left(every: bool) -> None:
    theirs = [taken(1, purpose=""), taken(2, owner="q"), replace(taken(3), name="by hand")]
    nova = Glance(None, images=[*theirs, taken(4), taken(5), taken(6), taken(7), taken(8)])
    nova.used["i-4"] = "s-9"
    done = swept(nova, every=every, spared=["i-5", "i-7", "i-8"])
    assert nova.asked == ["delete i-6"]
    assert done.state is (ProgressState.FAILED if every else DONE), (
        "what is left is looked at again"
    )
    assert "server s-9 was built from it" in done.detail


def test_of_a_node_that_is_gone_none_is_kept() -> None:
    nova = Glance(None, images=[taken(1), taken(2, status="saving"), taken(3), taken(4, node="m")])
    assert swept(nova, every=True).state is DONE
    assert [image.id for image in nova.images] == ["i-4"]


def test_one_that_glance_does_not_delete_is_told() -> None:
    nova = Glance(None, images=[taken(1)], protected=True)
    world = World(nova)
    done = world.do(discard_image.submit, "DISCARD", params={"every": True, "spared": []})
    assert done.state is ProgressState.FAILED
    assert "image i-1 is left: it is protected" in done.detail
