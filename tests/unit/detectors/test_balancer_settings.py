"""Load balancers in the settings: every fault is told with its place, and no secret or URL ever is."""

from __future__ import annotations

from pathlib import Path

import pytest

from yaffle.drivers.detectors.load_balancer.haproxy import Failed, read_csv
from yaffle.drivers.detectors.load_balancer.settings import (
    Balancer,
    BalancerSettings,
    CloudBalancer,
    Socket,
)
from yaffle.errors import ConfigError
from yaffle.integrations.driver_settings import Section
from yaffle.integrations.openstack import CloudsYaml

GOOD: dict[str, object] = {"type": "haproxy", "socket": "/run/haproxy.sock"}


def read(**changed: object) -> Balancer:
    values = {k: v for k, v in (GOOD | changed).items() if v is not None}
    section = Section("drivers.LB_STATUS_POLLING", {"balancers": {"edge": values}})
    found = BalancerSettings.read(section).balancers["edge"]
    assert isinstance(found, Balancer)
    return found


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"type": None}, "balancers.edge.type must be a non-empty text"),
        ({"type": "f5"}, "balancers.edge.type = 'f5': it must be one of haproxy, octavia"),
        ({"type": "octavia", "socket": None}, "balancers.edge.cloud must be a non-empty text"),
        ({"type": "octavia", "cloud": "c"}, "balancers.edge.socket: there is no such setting"),
        (
            {"type": "octavia", "socket": None, "cloud": "c", "clouds_file": "/no/such"},
            "balancers.edge.clouds_file = '/no/such': there is no such file",
        ),
        ({"socket": None}, "balancers.edge.socket or url is needed"),
        ({"socket": "run/haproxy"}, "balancers.edge.socket = 'run/haproxy': give an absolute path"),
        ({"socket": "host:0"}, "give an absolute path, or host:port"),
        ({"socket": ":80"}, "give an absolute path, or host:port"),
        ({"socket": []}, "balancers.edge.socket must be a text or a list of texts"),
        ({"socket": [7]}, "balancers.edge.socket must be a text or a list of texts"),
        ({"socket": {"path": "/x"}}, "balancers.edge.socket must be a text or a list of texts"),
        ({"url": "ftp://hush/"}, "balancers.edge.url must be an absolute http:// or https:// URL"),
        ({"url": "http://me:hush@lb/stats;csv"}, "balancers.edge.url may hold neither credentials"),
        ({"username": "me"}, "password_file or password_env is needed, exactly one of them"),
        ({"password_env": "HOME"}, "balancers.edge.username is missing beside its password"),
        (
            {"username": "me", "password_env": "NO_SUCH"},
            "password_env names a variable that",
        ),
        ({"username": "me", "password_file": "/no/such"}, "password_file = /no/such: No such file"),
        ({"username": "me", "password_file": "x"}, "password_file must be an absolute path"),
        ({"timeout": 0}, "balancers.edge.timeout is 0"),
        ({"events": "run/e"}, "balancers.edge.events = 'run/e': give an absolute path, or address"),
        ({"events": "localhost:514"}, "give an absolute path, or address:port"),
        ({"events": "127.0.0.1:0"}, "give an absolute path, or address:port"),
        ({"events": f"/{'x' * 107}"}, "balancers.edge.events is longer than 107 bytes"),
        ({"events": []}, "balancers.edge.events must be a text or a list of texts"),
        ({"events": "0.0.0.0:514"}, "events_from is missing: 0.0.0.0:514 can be reached by others"),
        ({"events": "[::]:514"}, "balancers.edge.events_from is missing"),
        ({"events": "127.0.0.1:514", "events_from": "lb"}, "balancers.edge.events_from is no list"),
        ({"events": "/e", "events_from": "10.0.0.1"}, "events_from is of no use"),
        ({"events_from": "10.0.0.1"}, "events_from is of no use"),
        (
            {"sockets": "/x"},
            "balancers.edge.sockets: there is no such setting; did you mean socket?",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(changed: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(**changed)
    assert said in str(caught.value)
    assert "hush" not in str(caught.value)


def test_unknown_keys_beside_balancers_are_errors() -> None:
    with pytest.raises(
        ConfigError, match=r"drivers\.LB_STATUS_POLLING\.balancer: there is no such"
    ):
        BalancerSettings.read(Section("drivers.LB_STATUS_POLLING", {"balancer": {}}))


def test_what_is_right_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LB_PASSWORD", "hush")
    found = read(
        socket=["/run/a.sock", "lb1:9999", "[::1]:9999"],
        url="https://lb2/stats;csv",
        username="me",
        password_env="LB_PASSWORD",
    )
    assert found.socket == (
        Socket(path="/run/a.sock"),
        Socket(host="lb1", port=9999),
        Socket(host="::1", port=9999),
    )
    assert len(found.sources) == 4
    assert found.headers["Authorization"] == "Basic bWU6aHVzaA=="
    assert "hush" not in repr(found)
    assert "bWU6" not in repr(found)


HEAD = "# pxname,svname,status,type,check_status,check_code,last_chk,agent_status,addr\n"


def test_columns_are_found_by_name_and_rows_by_pool_and_type() -> None:
    rows = (
        "web,FRONTEND,OPEN,0,,,,,\n"
        'web,w1,DOWN 1/2,2,L7STS,503,"HTTP status, 503",,10.0.0.1:80\n'
        "web,w2,DRAIN (agent),2,,,,L7OK,[2001:db8::1]:80\n"
        "web,BACKEND,UP,1,,,,,\n"
        "web2,w1,UP,2,L7OK,200,,,\n"
    )
    found = read_csv(HEAD + rows, "web")
    assert not isinstance(found, Failed)
    assert [(m.name, m.code, m.words, m.address) for m in found] == [
        ("w1", "LB-DOWN", "DOWN 1/2, L7STS 503, HTTP status, 503", "10.0.0.1:80"),
        ("w2", "LB-DRAIN", "DRAIN (agent), L7OK", "[2001:db8::1]:80"),
    ]
    # A backend without servers exists all the same.
    assert read_csv(HEAD + "web,BACKEND,UP,1,,,,,\n", "web") == []
    missing = read_csv(HEAD + rows, "wbe")
    assert isinstance(missing, Failed)
    assert missing.why == "it has no backend 'wbe'"


def test_octavia_is_a_cloud_and_a_pace() -> None:
    given = {"type": "octavia", "cloud": "prod", "timeout": 3}
    found = BalancerSettings.read(
        Section("drivers.LB_STATUS_POLLING", {"balancers": {"lb": given}})
    ).balancers["lb"]
    assert found == CloudBalancer(
        name="lb", type="octavia", credentials=CloudsYaml(name="prod"), timeout_s=3
    )


def test_where_events_come_from() -> None:
    assert read().events == ()
    one = read(events="/run/yaffle/edge.sock")
    assert one.events == (Socket(path="/run/yaffle/edge.sock"),)
    two = read(events=["127.0.0.1:5140", "[::1]:5140"])
    assert [place.words for place in two.events] == ["127.0.0.1:5140", "::1:5140"]
    far = read(events="10.0.0.9:514", events_from=["10.0.0.5", "10.1.0.0/16"])
    assert [str(network) for network in far.events_from] == ["10.0.0.5/32", "10.1.0.0/16"]


def test_a_place_is_one_balancers() -> None:
    edge = GOOD | {"events": ["127.0.0.1:5140", "/e"]}
    rim = GOOD | {"events": "127.0.0.1:5140"}
    for other in (rim, GOOD | {"events": "/e"}):
        section = Section("x", {"balancers": {"edge": edge, "rim": other}})
        with pytest.raises(ConfigError, match=r"balancers\.rim\.events = .* 'edge' is heard there"):
            BalancerSettings.read(section)
