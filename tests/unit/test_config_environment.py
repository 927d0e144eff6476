"""What the environment may say: settings, other programs' variables, and nothing misspelt."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

import yaffle
from yaffle import config
from yaffle.errors import ConfigError


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Have exactly these variables of ours."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("YAFFLE_")]:
        del os.environ[name]
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def loaded(variables: Mapping[str, str], path: Path | None = None) -> config.Settings:
    with environment(variables):
        return config.load(path)


def refusal(variables: Mapping[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(variables)
    return str(caught.value)


@pytest.mark.parametrize(
    "server", ["http://127.0.0.1:8777", "127.0.0.1:8777", "", "17", '"http://x"', "{oops"]
)
def test_a_clients_server_breaks_no_settings(server: str) -> None:
    listen = {"YAFFLE_SERVER__LISTEN": "127.0.0.1:1"}
    found = loaded({"YAFFLE_SERVER": server, **listen})
    assert found.server.listen == "127.0.0.1:1"
    assert loaded({"YAFFLE_SERVER": server}).server.listen == "127.0.0.1:8777"


def test_the_section_of_the_same_name_is_read_as_json() -> None:
    assert loaded({"YAFFLE_SERVER": '{"max_body": 17}'}).server.max_body == 17


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("YAFFLE_ENGINE", "lots"),
        ("YAFFLE_NETWORK__DENY", "10.0.0.0/8"),
        ("YAFFLE_NOTIFIERS", "ops"),
        ("YAFFLE_ENGINE__LEASE", "long"),
        ("YAFFLE_STATE_DIR__X", "y"),
    ],
)
def test_a_broken_value_names_its_variable(name: str, value: str) -> None:
    assert name in refusal({name: value, "YAFFLE_LOG__LEVEL": "info"})
    assert "YAFFLE_LOG__LEVEL" not in refusal({name: value, "YAFFLE_LOG__LEVEL": "info"})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("YAFFLE_ENGINE__LEESE", "YAFFLE_ENGINE__LEASE"),
        ("YAFFLE_ENGIN__LEASE", "YAFFLE_ENGINE__LEASE"),
        ("YAFFLE_LOCAL_PROCESS_ENABLED", "YAFFLE_LOCAL_PROCESS__ENABLED"),
        ("YAFFLE_STATEDIR", "YAFFLE_STATE_DIR"),
    ],
)
def test_a_misspelt_variable_is_refused_with_what_was_meant(name: str, meant: str) -> None:
    assert refusal({name: "1"}) == f"environment: {name} is no setting; did you mean {meant}?"


def test_every_misspelt_variable_is_named() -> None:
    assert len(refusal({"YAFFLE_ZZZZZZZZZZZZ": "1", "YAFFLE_STATEDIR": "2"}).splitlines()) == 2


def test_what_the_commands_read_is_no_misspelt_setting() -> None:
    sources = (Path(yaffle.__file__).parent / "cli").rglob("*.py")
    read = {name for f in sources for name in re.findall(r'"(YAFFLE_[A-Z_]+[A-Z])"', f.read_text())}
    assert {"YAFFLE_OS_CLOUD", "YAFFLE_SERVER", "YAFFLE_PASSWORD"} <= read
    settings = {"YAFFLE_STATE_DIR", "YAFFLE_DATABASE", "YAFFLE_SERVER__USERS_FILE"}
    settings |= {"YAFFLE_CREDENTIALS__KEYS_FILE"}
    loaded(dict.fromkeys(read - settings, "http://127.0.0.1:1"))


def test_variables_of_others_are_left_alone(tmp_path: Path) -> None:
    others = {
        "YAFFLE_TOKEN": "t" * 32,
        "YAFFLE_CONFIG": "/etc/yaffle.toml",
        "YAFFLE_NODE_ID": "n",
        "YAFFLE_JOB": "j",
        "YAFFLE_SERVICE_HOST": "10.0.0.1",
        "YAFFLE_PORT": "tcp://10.0.0.1:8777",
        "YAFFLE_PORT_8777_TCP_ADDR": "10.0.0.1",
        "YAFFLE_NOTIFIERS__OPS__TYPE": "log",
    }
    assert loaded(others).notifiers["ops"] == {"type": "log"}
    file = tmp_path / "yaffle.toml"
    file.write_text("[notifiers.ops]\ntype = 'webhook'\nsecret_env = 'YAFFLE_OPS_SECRET'\n")
    assert loaded({"YAFFLE_OPS_SECRET": "s"}, file).notifiers["ops"]["type"] == "webhook"
    assert "YAFFLE_OPS_SECRET" in refusal({"YAFFLE_OPS_SECRET": "s"})
