"""A stack is given up only where Heat would make it anew; what Heat could not ask is no refusal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from yaffle.drivers.profiles.heat_stack.api.heat import Heat
from yaffle.drivers.profiles.heat_stack.operations.preflight import foresee
from yaffle.integrations.openstack.client import Answer
from yaffle.integrations.openstack.faults import CloudUnavailable, fault_of
from yaffle.model.ids import NodeId
from yaffle.model.operations import Outlook, Target

TARGET = Target(
    node_id=NodeId("n"), name="n", physical_id="old", profile_type="os.heat.stack-1.0",
    spec={"template": {"resources": {}}, "timeout": 5},
)  # fmt: skip
IMAGE = "Property error: : resources.one.properties.image: : "
GONE = f"{IMAGE}Error validating value 'i': No images matching {{'name': 'i'}}."
DARK = f"{IMAGE}Error finding address for http://glance/v2/images: Unable to establish connection"
NETWORK = (
    "Property error: : resources.one.properties.networks[0].network: : Error validating value "
)
FULL = "You have reached the maximum stacks per tenant, 2. Please delete some stacks."


def stack(ident: str, **more: str) -> dict[str, str]:
    return {"id": ident, "stack_name": ident, "stack_status": "CREATE_COMPLETE", **more}


@dataclass
class Cloud:
    """A Heat that counts, then validates, and answers in the shape of a real one."""

    stacks: list[dict[str, str]] = field(default_factory=lambda: [stack("old")])
    most: int = 100
    invalid: str = ""
    broken: Exception | None = None
    asked: list[tuple[str, str, Mapping[str, Any]]] = field(default_factory=list)

    def get(self, service: str, path: str, *, query: Mapping[str, Any], **_: Any) -> Answer:
        found = [s for s in self.stacks if query.get("id") in (None, s["id"])]
        return Answer(status=200, body=json.dumps({"stacks": found}).encode(), request_id="r")

    def act(self, method: str, service: str, path: str, *, body: Any, **_: Any) -> Answer:
        self.asked.append((method, path, body))
        if self.broken is not None:
            raise self.broken
        roots = [one for one in self.stacks if "parent" not in one]
        if method == "POST" and len(roots) >= self.most:
            raise refused("RequestLimitExceeded", FULL)
        if self.invalid:
            raise refused("StackValidationFailed", self.invalid)
        return Answer(status=200, body=b"{}", request_id="r")

    def outlook(self) -> Outlook:
        return foresee(Heat(self), TARGET).outlook  # type: ignore[arg-type]


def refused(word: str, message: str) -> Exception:
    body = {"code": 400, "title": "Bad Request", "error": {"type": word, "message": message}}
    return fault_of(400, json.dumps(body).encode(), "POST", acts=True)


def test_heat_validates_what_a_create_sends_and_makes_nothing() -> None:
    cloud = Cloud()
    assert cloud.outlook() is Outlook.POSSIBLE
    ((method, path, body),) = cloud.asked
    assert (method, path) == ("POST", "/stacks/preview")
    assert body == {
        "stack_name": "yaffle-n-foreseen",
        "template": {"resources": {}},
        "timeout_mins": 5,
        "disable_rollback": True,
    }


@pytest.mark.parametrize(
    ("message", "outlook"),
    [
        pytest.param(GONE, Outlook.IMPOSSIBLE, id="image gone"),
        pytest.param(
            "Image status is required to be active not queued.",
            Outlook.IMPOSSIBLE,
            id="image queued",
        ),
        pytest.param(
            f"{NETWORK}'n': Unable to find network with name or id 'n'",
            Outlook.IMPOSSIBLE,
            id="network gone",
        ),
        pytest.param(
            f"{NETWORK}'n': Connection to neutron failed: refused",
            Outlook.UNKNOWN,
            id="neutron is down",
        ),
        pytest.param("The Resource Type (A::B) could not be found.", Outlook.IMPOSSIBLE, id="type"),
        pytest.param(f"{IMAGE}Unknown Property image", Outlook.IMPOSSIBLE, id="property"),
        pytest.param("The Parameter (a) was not provided.", Outlook.IMPOSSIBLE, id="parameter"),
        pytest.param(DARK, Outlook.UNKNOWN, id="glance is down"),
        pytest.param("something new", Outlook.UNKNOWN, id="words that we do not know"),
    ],
)
@pytest.mark.parametrize("most", [100, 1], ids=["room", "the old stack has the last room"])
def test_only_what_heat_was_answered_is_a_refusal(
    message: str, outlook: Outlook, most: int
) -> None:
    cloud = Cloud(invalid=message, most=most)
    said = foresee(Heat(cloud), TARGET)  # type: ignore[arg-type]
    assert said.outlook is outlook
    assert message in said.detail


def test_what_the_old_stack_takes_of_the_quota_is_free() -> None:
    nested = stack("inner", parent="other")
    cloud = Cloud(stacks=[stack("old"), stack("other"), nested], most=2)
    assert cloud.outlook() is Outlook.POSSIBLE
    assert [asked[:2] for asked in cloud.asked] == [
        ("POST", "/stacks/preview"),
        ("PUT", "/stacks/old/old/preview"),
    ]
    cloud.stacks.append(stack("third"))
    said = foresee(Heat(cloud), TARGET)  # type: ignore[arg-type]
    assert said.outlook is Outlook.IMPOSSIBLE
    assert "2 of 2 stacks in use by others" in said.detail


def test_silence_is_raised_and_what_we_may_not_ask_is_left_out() -> None:
    cloud = Cloud(broken=CloudUnavailable("no answer", sent=True))
    with pytest.raises(CloudUnavailable):
        cloud.outlook()
    cloud.broken = fault_of(403, b"", "POST", acts=True)
    assert cloud.outlook() is Outlook.POSSIBLE


@pytest.mark.parametrize("stacks", [[], [stack("old", stack_status="DELETE_COMPLETE")]])
def test_where_nothing_is_left_to_be_lost_nothing_is_asked(stacks: list[dict[str, str]]) -> None:
    cloud = Cloud(stacks=stacks, invalid=GONE)
    assert cloud.outlook() is Outlook.POSSIBLE
    assert cloud.asked == []
