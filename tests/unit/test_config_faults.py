"""Every fault of a configuration is told at once: with its line, and with what was meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from yaffle.config import load
from yaffle.errors import ConfigError

NUMBER = "Input should be a valid number, unable to parse string as a number"
MANY = """\
[engin]
lease = 5

[engine]
lease = "long"  # a comment
werkers = 3
[server]
listen = "here"
tokens = "x"
[budgets.total]
bursts = 4
[drivers."os.nova.server-1.0"]
cloud = "prod"
"""


def refusal(path: Path, **flags: object) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load(path, dict(flags))
    return [line.removeprefix(f"{path}:") for line in str(raised.value).splitlines()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "yaffle.toml"
    path.touch(0o600)
    return path


def test_all_are_told_at_once_in_the_order_of_the_file(file: Path) -> None:
    file.write_text(MANY)
    assert refusal(file) == [
        "1: engin: there is no such setting; did you mean engine?",
        f"5: engine.lease: {NUMBER} (it is 'long')",
        "6: engine.werkers: there is no such setting; did you mean workers?",
        "8: server.listen: 'here' is not HOST:PORT, for example 127.0.0.1:8777 (it is 'here')",
        "9: server.tokens: there is no such setting; did you mean token_file?",
        "11: budgets.total.bursts: there is no such setting; did you mean burst?",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("engine.lease = 'x'", 1),
        ("\n\n[engine]\n  'lease' = 'x'", 4),
        ("[ engine ]  # here\nlease='x'", 2),
        ('[drivers."a.b"]\nlease = 1\n[engine]\nlease = "x"', 4),
        ("engine = {lease = 'x'}", 1),
    ],
)
def test_a_line_is_found_however_it_is_written(text: str, line: int, file: Path) -> None:
    file.write_text(text)
    (said,) = refusal(file)
    assert said.startswith(f"{line}: engine.lease: Input should be a valid number")


def test_a_variable_and_the_file_are_told_together(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("[engine]\nwerkers = 3\n")
    monkeypatch.setitem(os.environ, "YAFFLE_ENGINE__LEASE", "never")
    monkeypatch.setitem(os.environ, "YAFFLE_ENGIN__LEASE", "3")
    environment, *rest = refusal(file)
    assert environment.startswith("environment: YAFFLE_ENGIN__LEASE is no setting")
    assert {line.partition(":")[0] for line in rest} == {"2", "YAFFLE_ENGINE__LEASE"}


def test_what_is_in_no_file_has_no_line(file: Path) -> None:
    (said,) = refusal(file, server={"listen": "here"})
    assert "server.listen: 'here' is not HOST:PORT" in said
