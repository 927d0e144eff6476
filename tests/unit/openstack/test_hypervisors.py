"""How the machine under a server is: down, forced down, closed to new servers, or not told."""

from __future__ import annotations

import pytest

from yaffle.drivers.detectors.backend.hypervisor import classify
from yaffle.drivers.profiles.nova_server.status.hypervisors import host_of
from yaffle.integrations.openstack.servers.documents import Listed, Service


def server(host: str | None = "h1", status: str = "ACTIVE", shown: str | None = None) -> Listed:
    launched = None if status == "ERROR" else "2026"
    return Listed(id="s", status=status, host=host, host_status=shown, launched_at=launched)


def service(state: str = "up", status: str = "enabled", *, forced: bool = False) -> Service:
    return Service(id="1", host="h1", state=state, status=status, forced_down=forced)


@pytest.mark.parametrize(
    ("seen", "services", "code"),
    [
        pytest.param(server(), [service()], "HV-UP", id="up"),
        pytest.param(server(), [service("down")], "HV-DOWN", id="down"),
        pytest.param(server(), [service("up", forced=True)], "HV-DOWN", id="forced down"),
        pytest.param(server(), [service("up", "disabled")], "HV-UP", id="merely disabled"),
        pytest.param(server(shown=""), [], "HV-GONE", id="no such service"),
        pytest.param(server(), [], "HV-UNCLEAR", id="no such service, and the server does not say"),
        pytest.param(
            server(shown="UP"), [], "HV-UNCLEAR", id="no such service, and the host is up"
        ),
        pytest.param(server(None), [service()], "HV-UNCLEAR", id="on no host"),
        pytest.param(server(None, "ERROR"), [service()], "HV-GONE", id="never placed"),
        pytest.param(server(None), None, "HV-UNCLEAR", id="no right to see hosts"),
        pytest.param(server(None, "ERROR"), None, "HV-UNCLEAR", id="nor whether it was placed"),
        pytest.param(server(shown="UP"), None, "HV-UP", id="host status up"),
        pytest.param(server(shown="DOWN"), None, "HV-DOWN", id="host status down"),
        pytest.param(server(shown="UNKNOWN"), None, "HV-UNCLEAR", id="host status unknown"),
        pytest.param(server(shown="MAINTENANCE"), None, "HV-UNCLEAR", id="host in maintenance"),
        pytest.param(None, [service()], "HV-UNCLEAR", id="no such server"),
    ],
)
def test_how_the_host_is(seen: Listed | None, services: list[Service] | None, code: str) -> None:
    by_host = None if services is None else {s.host: s for s in services}
    assert classify(host_of(seen, by_host))[0] == code


def test_forced_down_and_disabled_are_told() -> None:
    told = host_of(server(), {"h1": service("down", "disabled", forced=True)})
    assert (told.forced_down, told.enabled, told.name) == (True, False, "h1")
