"""What may leave for a cloud that is only looked at: a table, and a wire on which no more is seen."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.functional.cli.fake_cloud import served

from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import Forbidden
from yaffle.integrations.openstack import Client, Cloud, CloudsYaml, lasting, looked_at
from yaffle.integrations.openstack.faults import CloudUnavailable
from yaffle.integrations.openstack.request_policy import everything, questions

CLOCK = SystemClock()


@pytest.mark.parametrize(
    ("method", "path", "passes"),
    [
        pytest.param("GET", "/v2.1/servers", True, id="get"),
        pytest.param("HEAD", "/v2.1/servers", True, id="head"),
        pytest.param("POST", "/v3/auth/tokens", True, id="token"),
        pytest.param("POST", "/identity/v3/auth/tokens", True, id="token below a path"),
        pytest.param("POST", "/v3/auth/tokens/x", False, id="beside tokens"),
        pytest.param("POST", "/v2.1/servers?x=/v3/auth/tokens", False, id="in the query"),
        pytest.param("POST", "/v2.1/servers/i/action", False, id="act"),
        pytest.param("POST", "/v2.1/servers/i/metadata", False, id="mark"),
        pytest.param("DELETE", "/v3/auth/tokens", False, id="revoke"),
        pytest.param("PUT", "/v2.1/os-services/i", False, id="put"),
        pytest.param("PATCH", "/v3/users/i", False, id="patch"),
        pytest.param("get", "/v2.1/servers", False, id="what is no method of ours"),
    ],
)
def test_questions_pass_and_nothing_else(method: str, path: str, passes: bool) -> None:
    assert questions(method, f"https://cloud.example.org{path}") is passes
    assert everything(method, path)


def test_what_would_change_anything_never_reaches_the_wire(tmp_path: Path) -> None:
    def act(client: Client) -> None:
        client.act("POST", "compute", "/servers/i/action", body={"reboot": {"type": "HARD"}})

    with served() as cloud:
        file = cloud.clouds_yaml(tmp_path / "clouds.yaml")
        credentials = CloudsYaml(name="prod", file=file)
        looked = looked_at(credentials, CLOCK)
        identity = asyncio.run(looked.call(lambda c: c.identity, 20.0))
        assert (identity.user, identity.project, identity.roles) == ("reader", "shop", ("reader",))
        with pytest.raises(Forbidden, match="not sent, this cloud is only looked at"):
            asyncio.run(looked.call(act, 20.0))
        assert cloud.writes == []
        # The same of a cloud with its hands free arrives: it is the gate that holds, not the wire.
        asyncio.run(Cloud(credentials, CLOCK).call(act, 20.0))
        assert cloud.writes == [("POST", "/v2.1/servers/i/action", "")]


def test_what_time_may_mend_is_waited_for_and_the_rest_is_said() -> None:
    assert lasting(CloudUnavailable("503", sent=False)) is None
    refused = Forbidden("403")
    assert lasting(refused) is refused
