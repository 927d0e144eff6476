"""LB_STATUS_POLLING names a pool and a balancer, and no other mode does."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.policy.documents import accepted, document, problems

from yaffle.policy import parse_document

STATUS = {"type": "NODE_STATUS_POLLING"}
URL = {"poll_url": "http://{node_ip}/"}


def pool_mode(**options: object) -> dict[str, Any]:
    return {"type": "LB_STATUS_POLLING", "options": options}


@pytest.mark.parametrize(
    "options", [{}, {"pool": "web"}, {"pool": "be_web-1.v2:x", "balancer": "edge"}]
)
def test_what_is_named_is_kept_and_written_back(options: dict[str, object]) -> None:
    parsed = accepted(document("1.3", modes=[pool_mode(**options)]))
    (mode,) = parsed.policy.detection.modes
    assert dict(mode.options) == options
    assert parse_document(parsed.document).policy == parsed.policy


@pytest.mark.parametrize("key", ["pool", "balancer"])
@pytest.mark.parametrize(
    "name",
    ["", "web farm", "web\nset server web/a state maint", "web;", "päol", "a" * 129, ["web"]],
)
def test_a_name_is_no_more_than_a_name(key: str, name: object) -> None:
    (line,) = problems(document("1.3", modes=[pool_mode(**{key: name})]))
    assert f"detection.detection_modes.0.options.{key}: " in line


def test_options_belong_to_their_modes() -> None:
    told = problems(
        document(
            "1.3",
            modes=[
                {"type": "NODE_STATUS_POLL_URL", "options": {**URL, "pool": "web"}},
                {**STATUS, "options": {"balancer": "edge"}},
                pool_mode(pool="web", **URL),
            ],
        )
    )
    assert told == (
        "detection.detection_modes.0.options.pool: only for LB_STATUS_POLLING",
        "detection.detection_modes.1.options.balancer: only for LB_STATUS_POLLING",
        "detection.detection_modes.2.options.poll_url: only for NODE_STATUS_POLL_URL",
    )


def test_two_pools_are_two_questions() -> None:
    accepted(document("1.3", modes=[pool_mode(pool="web"), pool_mode(pool="api")]))
    (line,) = problems(document("1.3", modes=[pool_mode(pool="web"), pool_mode(pool="web")]))
    assert "the same as detection_modes.0" in line
