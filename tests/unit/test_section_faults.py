"""Every fault of the drivers' own sections is told at once, and nothing is made of a stand-in."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from yaffle.config import Settings, Unusable, load
from yaffle.config.faults import Faults, Origin, lines_of
from yaffle.drivers.detectors.lifecycle.settings import LifecycleSettings
from yaffle.drivers.detectors.load_balancer.settings import BalancerSettings
from yaffle.drivers.fencers.host.settings import HostSettings
from yaffle.drivers.profiles.nova_server.settings import NovaSettings
from yaffle.drivers.workflows.command.settings import CommandSettings
from yaffle.drivers.workflows.http.settings import HttpSettings
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import ConfigError
from yaffle.integrations.driver_settings import Section
from yaffle.integrations.signed_post import PostSettings
from yaffle.wiring import check, load_drivers


@pytest.mark.parametrize(
    ("read", "values", "places"),
    [
        pytest.param(
            PostSettings.read,
            {
                "url": "ftp://x",
                "timeout": "soon",
                "u": 1,
                "ca_file": "/no/such",
                "headers": {"Host": "a", "X": "\n"},
            },
            ["ca_file", "headers.Host", "headers.X", "secret", "timeout", "u", "url"],
            id="webhook",
        ),
        pytest.param(
            HttpSettings.read,
            {"enabled": True, "endpoints": {"a": {"url": "x", "poll_url": "y"}, "b.c": {}}, "z": 1},
            [
                *("endpoints.a.poll_url", "endpoints.a.secret", "endpoints.a.url"),
                *('endpoints."b.c".secret', 'endpoints."b.c".url', "z"),
            ],
            id="HTTP",
        ),
        pytest.param(
            CommandSettings.read,
            {"commands": {"a": {"argv": "x", "env": {"1": ""}, "env_files": {"B": "b"}}, "b": 1}},
            ["commands.a.argv", "commands.a.env.1", "commands.a.env_files.B", "commands.b"],
            id="COMMAND",
        ),
        pytest.param(
            HostSettings.read,
            {
                "devices": {
                    "a": {
                        "agent": "/no/such",
                        "hosts": {"h": 1, "i": {"action": "on"}},
                        "options": {"action": "on", "ip": "1", "plug": "2"},
                        "secret_files": {"x": "relative"},
                        "password_env": "NO_SUCH",
                        "timeout": -1,
                    },
                }
            },
            [
                *("devices.a.agent", "devices.a.hosts.h", "devices.a.hosts.i.action"),
                *("devices.a.options.action", "devices.a.options.plug", "devices.a.password_env"),
                *("devices.a.secret_files.x", "devices.a.timeout"),
            ],
            id="HOST",
        ),
        pytest.param(
            BalancerSettings.read,
            {
                "balancers": {
                    "a": {"type": "haproxy", "socket": "x", "events": "y", "events_from": "z"},
                    "b": {"type": "octavia", "timeout": 0},
                    "c": {"type": "f5", "sockets": "/whatever"},
                    "d": {"type": "haproxy", "url": ["x"], "username": "me"},
                }
            },
            [
                *("balancers.a.events", "balancers.a.events_from", "balancers.a.socket"),
                *("balancers.b.cloud", "balancers.b.timeout", "balancers.c.type"),
                *("balancers.d.password_file", "balancers.d.url"),
            ],
            id="LB_STATUS_POLLING",
        ),
        pytest.param(
            LifecycleSettings.read,
            {"sources": {"a": {"urls": ["http://x", "amqp://a?b"], "verify": False}, "b": {}}},
            ["sources.a.urls[0]", "sources.a.urls[1]", "sources.b.urls"],
            id="LIFECYCLE_EVENTS",
        ),
        pytest.param(
            NovaSettings.read,
            {"all_projects": True, "credentials": "projects", "full_sweep": 0, "cloud": 1},
            ["all_projects", "cloud", "full_sweep"],
            id="nova",
        ),
    ],
)
def test_all_are_told_at_once_each_with_its_place_and_once(
    read: Callable[[Section], object], values: dict[str, object], places: list[str]
) -> None:
    with pytest.raises(ConfigError) as raised:
        read(Section("x", values))
    said = sorted(problem.removeprefix("x.") for problem in raised.value.problems)
    for problem, place in zip(said, sorted(places), strict=True):
        assert problem.startswith((f"{place} ", f"{place}: ")), (problem, place)


def test_a_misspelt_key_is_told_with_the_nearest() -> None:
    section = Section("x", {"timeuot": 1, "zzz": 2})
    section.number("timeout", 1, low=0, high=2)
    with pytest.raises(ConfigError) as raised:
        section.finish()
    assert raised.value.problems == (
        "x.timeuot: there is no such setting; did you mean timeout?",
        "x.zzz: there is no such setting; known: timeout",
    )


def test_where_a_fault_stands_is_told_of_the_file_and_of_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = '[drivers."a.b"]\nc = 1\n[notifiers.ops]\nurl = 1\n'
    origin = Origin(Path("f.toml"), lines_of(text))
    monkeypatch.setitem(os.environ, "YAFFLE_NOTIFIERS__OPS__SECRET", "x")
    said = [
        "notifiers.ops.url is wrong",
        "notifiers.ops.type: is missing",
        "notifiers.ops.secret is short",
        'drivers."a.b".c is wrong',
        "users_file = /x: no such file",
    ]
    assert origin.located(said) == [
        "YAFFLE_NOTIFIERS__OPS__SECRET: notifiers.ops.secret is short",
        "users_file = /x: no such file",
        'f.toml:2: drivers."a.b".c is wrong',
        "f.toml:3: notifiers.ops.type: is missing",
        "f.toml:4: notifiers.ops.url is wrong",
    ]


def test_what_is_gathered_twice_is_told_once_and_nothing_is_nothing() -> None:
    faults = Faults()
    faults.settle()
    for _ in range(2):
        with faults.gather():
            raise ConfigError(("a", "b"), hint="install it")
    with pytest.raises(ConfigError) as raised:
        faults.settle()
    assert (raised.value.problems, raised.value.hint) == (("a", "b"), "install it")


def broken(tmp_path: Path) -> Settings:
    return Settings(
        state_dir=tmp_path / "state",
        notifiers={
            "ops": {"type": "webhok"},
            "a b": {"type": "log", "x": 1},
            "lifecycle-hook": {"type": "log"},
        },
        drivers={
            "HOST": {"devise": {}},
            "NODE_STATUS_POLLING": {"x": 1},
            "os.nova.server-1.0": {"credentials": "projects"},
            "COMAND": {},
        },
    )


def test_no_driver_hides_the_faults_of_another(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        check(broken(tmp_path))
    assert sorted(problem.split(" ")[0] for problem in raised.value.problems) == [
        'drivers."os.nova.server-1.0".cloud',
        "drivers.COMAND:",
        "drivers.HOST.devise:",
        "drivers.NODE_STATUS_POLLING.x:",
        'notifiers."a',
        "notifiers.lifecycle-hook:",
        "notifiers.ops.type",
    ]
    assert not (tmp_path / "state").exists()


def test_a_driver_that_needs_keys_is_not_blamed_for_those_that_are_wrong(tmp_path: Path) -> None:
    nova = {"cloud": "c", "credentials": "projects"}
    said = {}
    for name, keys in (("none", {}), ("wrong", {"keys_file": str(tmp_path / "none")})):
        settings = Settings(
            state_dir=tmp_path, drivers={"os.nova.server-1.0": nova}, credentials=keys
        )
        with pytest.raises(ConfigError) as raised:
            check(settings)
        (said[name],) = raised.value.problems
    assert said["none"].startswith('drivers."os.nova.server-1.0": `credentials = "projects"` needs')
    assert said["wrong"].startswith("credentials.keys_file = ")


def test_a_driver_of_strangers_that_names_no_section_gets_one(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path)
    with pytest.raises(ConfigError) as raised:
        load_drivers(settings, SystemClock(), None)
    assert raised.value.problems == (
        "drivers.NODE_STATUS_POLL_URL: the URL detector needs the prober, which is switched off",
    )


def test_with_settings_that_are_wrong_themselves_the_rest_can_be_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "yaffle.toml"
    file.touch(0o600)
    file.write_text('[engine]\nlease = "x"\n[credentials]\nkey = 1\n[notifiers.a]\ntype = "b"\n')
    with pytest.raises(Unusable) as raised:
        load(file, {"engine": {"listen": "off"}, "state_dir": tmp_path})
    assert raised.value.broken == {"engine", "credentials"}
    rest = raised.value.rest
    assert rest is not None
    assert rest.notifiers == {"a": {"type": "b"}}
    nova = {"cloud": "c", "credentials": "projects"}
    # Whoever has said which keys, wrongly, is not told that there are none.
    check(Settings(drivers={"os.nova.server-1.0": nova}), frozenset({"credentials"}))


def test_where_a_variable_is_wrong_nothing_is_guessed_of_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "YAFFLE_ENGINE__LEASE", "never")
    with pytest.raises(Unusable) as raised:
        load(None, {"state_dir": tmp_path})
    assert raised.value.rest is None
