"""The card by which commands find the server, and what is made of a token file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import certifi
import pytest

from yaffle.cli.client import address
from yaffle.cli.client.native import Api
from yaffle.cli.client.transport import _token, _trust
from yaffle.cli.serve.systemd import Systemd
from yaffle.config import Settings
from yaffle.errors import ConfigError


def test_the_default_state_directory_is_the_servers() -> None:
    assert Settings.model_fields["state_dir"].default == Path(address.DEFAULT_STATE_DIR)
    listen = Settings.model_fields["server"].default.listen
    assert f"http://{listen}" == address.DEFAULT_SERVER


def test_a_card_is_private_whole_and_its_owners(tmp_path: Path) -> None:
    card = address.Card(url="http://127.0.0.1:1", pid=os.getpid(), token_file="/t")
    path = address.write(tmp_path, card)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["server.json"]
    assert address.read(tmp_path) == card
    address.remove(tmp_path, card.pid + 1)
    assert path.exists()
    address.remove(tmp_path, card.pid)
    assert address.read(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"url": "x", "pid": "y"}', "\xff"])
def test_a_broken_card_is_no_card(text: str, tmp_path: Path) -> None:
    (tmp_path / "server.json").write_text(text)
    assert address.read(tmp_path) is None
    address.remove(tmp_path, 1)


def test_a_card_of_the_dead_is_no_card(tmp_path: Path) -> None:
    address.write(tmp_path, address.Card(url="http://127.0.0.1:1", pid=2**22 + 1))
    assert address.read(tmp_path) is None


def test_tokens_are_read_as_the_server_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("# comment\n\nmara: secret-of-mara\nother\n")
    assert _token(file) == "secret-of-mara"
    file.write_text("bare-token\n")
    assert _token(file) == "bare-token"
    file.write_text("# nothing\n")
    with pytest.raises(ConfigError, match="holds no token"):
        _token(file)


def test_a_server_url_keeps_no_trailing_slash() -> None:
    with Api("http://127.0.0.1:9/") as api:
        assert api.url == "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("environ", "watchdog_s"),
    [
        ({}, None),
        ({"NOTIFY_SOCKET": "/n"}, None),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "3000000"}, 3.0),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "7"}, 3.0),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "8"}, None),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "soon"}, None),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "3000000"}, None),
    ],
)
def test_the_supervisor_is_read_from_the_environment(
    environ: dict[str, str], watchdog_s: float | None
) -> None:
    assert Systemd.from_environment(environ, 7).watchdog_s == watchdog_s


def test_a_card_that_cannot_be_read_is_not_taken_for_none(tmp_path: Path) -> None:
    (tmp_path / address.NAME).symlink_to(address.NAME)
    with pytest.raises(ConfigError, match=r"server\.json: .*; run it as the user of the server"):
        address.read(tmp_path)
    assert address.read(tmp_path / "none") is None


def test_who_is_believed_is_loaded_only_for_https(monkeypatch: pytest.MonkeyPatch) -> None:
    """To load the authorities of the world costs nearly half of the CPU of a whole command."""
    monkeypatch.setenv("SSL_CERT_FILE", certifi.where())
    assert _trust("http://127.0.0.1:1", None).cert_store_stats()["x509"] == 0
    assert _trust("https://127.0.0.1:1", None).cert_store_stats()["x509"] > 0
