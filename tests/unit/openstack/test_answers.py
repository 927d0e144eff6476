"""An answer of 2xx that is not what it should be: what a person reads of it."""

from __future__ import annotations

import pytest
from tests.unit.garbage import GARBAGE

from yaffle.drivers.workflows.mistral.executions import Execution
from yaffle.integrations.openstack import Answer, CloudUnavailable
from yaffle.integrations.openstack.servers.server_cache import since


@pytest.mark.parametrize(
    ("garbage", "said"),
    [
        ("empty", "it is empty"),
        ("html", "it is a page, as of a proxy or a log-in, and no JSON"),
        ("not utf-8", "it is not UTF-8"),
        ("deep objects", "it is nested too deep"),
        ("a list", "Expected `object`, got `array`"),
    ],
)
def test_what_came_instead_is_named_and_not_quoted(garbage: str, said: str) -> None:
    with pytest.raises(CloudUnavailable, match="cannot be read") as told:
        Answer(status=200, body=GARBAGE[garbage], request_id="").parsed(Execution)
    assert said in str(told.value)
    assert "Log in" not in str(told.value)


@pytest.mark.parametrize("newest", ["", "never", "0001-01-01T00:00:00Z", "9" * 5000])
def test_a_time_that_is_none_asks_for_everything(newest: str) -> None:
    assert since(newest) == ""
