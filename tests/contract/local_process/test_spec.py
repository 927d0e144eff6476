"""Properties of a local process: every fault is named, defaults are filled in."""

from __future__ import annotations

import pytest

from yaffle.drivers.profiles.local_process.spec import expand, validate
from yaffle.errors import InvalidSpec


def test_defaults_are_filled_in_and_validating_again_changes_nothing() -> None:
    full = validate({"command": ["sleep", "1"]})
    assert full["port"] is None
    assert full["stop_signal"] == "TERM"
    assert full["port_range"] == [20000, 29999]
    assert validate(full) == full


def test_a_port_is_chosen_where_the_command_speaks_of_one() -> None:
    assert validate({"command": ["serve", "--port={port}"]})["port"] == "auto"
    assert validate({"command": ["serve"], "env": {"PORT": "{port}"}})["port"] == "auto"
    assert validate({"command": ["serve", "{port}"], "port": 8080})["port"] == 8080


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({}, "command: must be a non-empty list"),
        ({"command": []}, "command: must be a non-empty list"),
        ({"command": "sleep 1"}, "command: must be a non-empty list"),
        ({"command": [""]}, "command: [0]: must be a non-empty text"),
        ({"command": ["a", 1]}, "command: [1]: must be"),
        ({"command": ["a", "{prot}"]}, "command: [1]: unknown expansion '{prot}'"),
        ({"command": ["a", "{"]}, "command: [1]: lone '{'"),
        ({"command": ["a\0b"]}, "without NUL"),
        ({"env": {"A=B": "x"}}, "env: 'A=B' is not a variable name"),
        ({"env": {"YAFFLE_NODE_ID": "x"}}, "reserved"),
        ({"env": {"A": None}}, "env: A: must be a text"),
        ({"env": {"A": "{nope}"}}, "env: A: unknown expansion"),
        ({"cwd": "here"}, "cwd: must be an absolute path"),
        ({"port": 0}, "port: must be 1-65535"),
        ({"port": True}, "port: must be 1-65535"),
        ({"port_range": "9-1"}, "port_range: must be like"),
        ({"node_ip": "localhost"}, "node_ip: must be an IP address"),
        ({"stop_signal": "LOUD"}, "stop_signal: must be a signal"),
        ({"stop_timeout": 0}, "stop_timeout: must be more than 0"),
        ({"start_timeout": float("nan")}, "start_timeout: must be more than 0"),
        ({"colour": "green"}, "colour: unknown property"),
    ],
)
def test_a_fault_is_named(spec: dict[str, object], fault: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        validate({"command": ["sleep"], **spec} if spec else spec)
    assert fault in str(caught.value)


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(InvalidSpec) as caught:
        validate({"command": ["{x}", "{y}"], "port": -1, "colour": 1})
    assert len(caught.value.problems) == 4


def test_braces_are_written_twice() -> None:
    assert expand('{{"port": {port}}}', {"port": "80"}) == '{"port": 80}'
