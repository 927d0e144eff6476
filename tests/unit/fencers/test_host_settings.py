"""Power devices in the settings: every fault is told with its place, and no secret ever is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.private import private

from yaffle.drivers.fencers.host.agent import lines
from yaffle.drivers.fencers.host.settings import HostSettings
from yaffle.errors import ConfigError
from yaffle.integrations.driver_settings import Section

GOOD: dict[str, object] = {"agent": "/bin/true", "hosts": ["cmp1"]}


def read(**changed: object) -> HostSettings:
    values = {k: v for k, v in (GOOD | changed).items() if v is not None}
    return HostSettings.read(Section("drivers.HOST", {"devices": {"rack1": values}}))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"agent": None}, "devices.rack1.agent must be a non-empty text"),
        ({"agent": "bin/true"}, "devices.rack1.agent = 'bin/true': give a name in /usr/sbin"),
        ({"agent": "fence_nothing"}, "/usr/sbin/fence_nothing is no program here"),
        ({"agent": "/etc/passwd"}, "/etc/passwd is no program here"),
        ({"hosts": None}, "devices.rack1.hosts must be a list of hosts"),
        ({"hosts": []}, "devices.rack1.hosts must be a list of hosts"),
        ({"hosts": "cmp1"}, "devices.rack1.hosts must be a list of hosts"),
        ({"hosts": ["cmp1", "cmp1"]}, "devices.rack1.hosts names a host twice"),
        ({"hosts": [7]}, "devices.rack1.hosts.7 must be a plug"),
        ({"hosts": {"cmp1": 7}}, "devices.rack1.hosts.cmp1 must be a plug (a text)"),
        ({"hosts": {"": "7"}}, "'' is not a host's name"),
        ({"hosts": {"cmp1": "a\nb=c"}}, "devices.rack1.hosts.cmp1 must be a number"),
        ({"hosts": {"cmp1": {"action": "on"}}}, "devices.rack1.hosts.cmp1.action is not for"),
        ({"options": {"action": "reboot"}}, "devices.rack1.options.action is not for the options"),
        ({"options": {"port": "3"}}, "options.port is not for the options: it is another word"),
        ({"options": {"password": "hush"}}, "options.password is not for the options: give"),
        ({"options": {"debug_file": "/tmp/x"}}, "options.debug_file is not for the options"),
        ({"options": {"a b": "c"}}, "'a b' is not the name of an agent's option"),
        ({"options": {"ip": "a\naction=on"}}, "devices.rack1.options.ip must be a number"),
        ({"options": {"ip": ["a"]}}, "devices.rack1.options.ip must be a number"),
        ({"password_file": "secret"}, "devices.rack1.password_file must be an absolute path"),
        ({"password_file": "/no/such"}, "devices.rack1.password_file = /no/such: No such file"),
        ({"password_env": "NO_SUCH_VARIABLE"}, "password_env: there is no such variable"),
        ({"secret_files": {"community": "x"}}, "secret_files.community must be an absolute path"),
        (
            {"secret_files": {"community": "/no/such"}},
            "secret_files.community = /no/such: No such file",
        ),
        ({"secret_files": {"password": "/etc/hosts"}}, "secret_files.password is not for"),
        ({"timeout": 0}, "devices.rack1.timeout is 0"),
        ({"even_while_up": "false"}, "devices.rack1.even_while_up must be true or false"),
        (
            {"even_if_up": True},
            "rack1.even_if_up: there is no such setting; did you mean even_while_up?",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(changed: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(**changed)
    assert said in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_password_comes_from_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "password"
    private(file, "hush\n")
    monkeypatch.setenv("BMC_PASSWORD", "hush-too")
    with pytest.raises(ConfigError, match="not both"):
        read(password_file=str(file), password_env="BMC_PASSWORD")
    assert read(password_file=str(file)).devices["rack1"].secrets() == {"password": "hush"}
    assert read(password_env="BMC_PASSWORD").devices["rack1"].secrets() == {"password": "hush-too"}
    for wrong in (b"hush\nhush", b"\xff\xfe"):
        file.write_bytes(wrong)
        with pytest.raises(ConfigError):
            read(password_file=str(file))


def test_one_device_switches_a_host() -> None:
    two = {"a": GOOD, "b": GOOD}
    with pytest.raises(ConfigError, match=r"devices.b.hosts: 'cmp1' is in device 'a' as well"):
        HostSettings.read(Section("drivers.HOST", {"devices": two}))


@pytest.mark.parametrize(
    "hosts",
    [
        pytest.param(["cmp1", "cmp2"], id="a list"),
        pytest.param({"cmp1": "", "cmp2": ""}, id="no plugs"),
        pytest.param({"cmp1": "3", "cmp2": "3"}, id="one plug for two"),
        pytest.param({"cmp1": {"username": "a"}, "cmp2": {"username": "b"}}, id="who asks"),
    ],
)
def test_the_agent_is_asked_something_else_of_each_host(hosts: object) -> None:
    with pytest.raises(ConfigError) as caught:
        read(hosts=hosts)
    said = str(caught.value)
    assert "devices.rack1.hosts: the agent would be asked the same of cmp1 and of cmp2" in said
    assert '`hosts = {cmp1 = "PLUG", cmp2 = "PLUG"}`' in said


def test_two_devices_that_are_one_are_refused_too() -> None:
    strip = {**GOOD, "options": {"ip": "10.0.0.9"}}
    devices = {"a": strip, "b": {**strip, "hosts": ["cmp2"]}}
    with pytest.raises(ConfigError, match=r"devices.b.hosts: .* the same of cmp1 and of cmp2"):
        HostSettings.read(Section("drivers.HOST", {"devices": devices}))
    devices["b"] = {**devices["b"], "options": {"ip": "10.0.0.10"}}
    HostSettings.read(Section("drivers.HOST", {"devices": devices}))


def test_hosts_are_told_apart_by_a_plug_or_an_address() -> None:
    own = {"cmp1": {"ip": "10.0.0.11"}, "cmp2": {"ip": "10.0.0.12"}, "cmp3": "3", "cmp4": "4"}
    assert read(hosts=own).by_host().keys() == own.keys()


def test_an_agent_is_found_by_its_name() -> None:
    found = read(agent="/bin/../bin/true").devices["rack1"]
    assert found.agent == Path("/bin/../bin/true")
    assert not found.even_while_up


def test_unknown_keys_beside_devices_are_errors() -> None:
    with pytest.raises(ConfigError, match=r"drivers\.HOST\.device: .* did you mean devices"):
        HostSettings.read(Section("drivers.HOST", {"device": {}}))


def test_what_is_said_to_an_agent() -> None:
    device = read(
        hosts={"cmp1": {"ip": "10.0.0.11", "plug": "3"}}, options={"lanplus": True, "retry": 2}
    ).devices["rack1"]
    options = {**device.options, **device.hosts["cmp1"]}
    assert lines("off", options, {"password": "p"}).splitlines() == [
        "lanplus=1",
        "retry=2",
        "plug=3",
        "ip=10.0.0.11",
        "password=p",
        "action=off",
    ]
