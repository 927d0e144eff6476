"""The demo is found where no server is, and never in place of one."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from yaffle.cli.client import address
from yaffle.cli.demo.listing import listed

DEMO = address.Card(url="http://127.0.0.1:1", pid=os.getpid())
NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    before = os.environ.get("YAFFLE_STATE_DIR")
    os.environ["YAFFLE_STATE_DIR"] = str(tmp_path / "some" / "state")
    yield tmp_path / "some" / "state"
    if before is None:
        del os.environ["YAFFLE_STATE_DIR"]
    else:
        os.environ["YAFFLE_STATE_DIR"] = before


def test_it_is_found_and_then_gone_with_the_folder_that_it_made(folder: Path) -> None:
    with listed(DEMO, NOBODY) as done:
        assert done
        assert address.read(address.state_dir()) == DEMO
    assert not folder.exists()


def test_a_folder_that_was_there_stays(folder: Path) -> None:
    folder.mkdir(parents=True)
    with listed(DEMO, NOBODY) as done:
        assert done
    assert list(folder.iterdir()) == []


def test_a_registered_server_stays_the_one_that_is_found(folder: Path) -> None:
    folder.mkdir(parents=True)
    real = address.Card(url="http://127.0.0.1:2", pid=os.getppid())
    address.write(folder, real)
    with listed(DEMO, NOBODY) as done:
        assert not done
        assert address.read(folder) == real
    assert address.read(folder) == real


def test_a_server_at_the_default_address_stays_the_default(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with listed(DEMO, url) as done:
            assert not done
            assert address.read(folder) is None
    assert not folder.exists()


def test_a_server_that_starts_later_keeps_its_own_card(folder: Path) -> None:
    later = address.Card(url="http://127.0.0.1:2", pid=os.getppid())
    with listed(DEMO, NOBODY):
        address.write(folder, later)
    assert address.read(folder) == later


def test_where_it_cannot_write_it_goes_on(folder: Path) -> None:
    os.environ["YAFFLE_STATE_DIR"] = "/proc/none"
    with listed(DEMO, NOBODY) as done:
        assert not done
