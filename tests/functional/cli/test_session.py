"""Commands with a name and password: one sign-in for many of them, kept where nobody else reads it."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.functional.api.balancing import HAVE, balanced
from tests.functional.api.live import Live, running
from tests.functional.api.people import users_file
from tests.functional.cli.support import Done, run_here

WORD = "correct horse"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    path = tmp_path_factory.mktemp("session")
    known = users_file(path, mara=WORD, ben="battery staple")
    with running(path / "state", server={"users_file": known}) as found:
        yield found


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def cli(live: Live, cache: Path, *, user: str = "mara", password: str = WORD) -> Done:
    env = {
        "YAFFLE_SERVER": f"http://{live.address}",
        "YAFFLE_USER": user,
        "YAFFLE_PASSWORD": password,
        "XDG_CACHE_HOME": str(cache),
    }
    return run_here("cluster", "list", env=env)


def kept(cache: Path) -> Path:
    (file,) = (cache / "yaffle").iterdir()
    return file


def test_the_session_is_kept_for_the_next_command_and_for_nobody_else(
    live: Live, cache: Path
) -> None:
    assert cli(live, cache).code == 0
    file = kept(cache)
    token = file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    # No password is needed any more, and so none is tried.
    assert cli(live, cache, password="forgotten").code == 0
    assert file.read_text() == token
    # Somebody else's session is not theirs.
    assert cli(live, cache, user="ben", password="wrong").code != 0


@pytest.mark.parametrize("content", ["", "no-session-of-this-server", "\x00\xff\n"])
def test_what_is_no_session_is_replaced(live: Live, cache: Path, content: str) -> None:
    assert cli(live, cache).code == 0
    kept(cache).write_text(content)
    assert cli(live, cache).code == 0
    assert kept(cache).read_text() != content


def test_a_session_that_others_could_read_is_not_used(live: Live, cache: Path) -> None:
    assert cli(live, cache).code == 0
    file = kept(cache)
    file.chmod(0o644)
    assert cli(live, cache, password="wrong").code != 0
    assert cli(live, cache).code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_without_a_place_to_keep_it_the_password_does(live: Live) -> None:
    assert cli(live, Path("/proc/none")).code == 0


def test_a_wrong_password_is_told_as_such(live: Live, cache: Path) -> None:
    done = cli(live, cache, user="ben", password="battery stable")
    assert done.code != 0
    assert "YAFFLE_PASSWORD" in done.err
    assert not list((cache / "yaffle").iterdir())


@pytest.mark.skipif(not HAVE, reason="there is no haproxy")
def test_where_processes_take_turns_the_password_does(tmp_path: Path, cache: Path) -> None:
    known = users_file(tmp_path, mara=WORD)
    with (
        running(tmp_path / "one", server={"users_file": known}) as one,
        running(tmp_path / "two", server={"users_file": known}) as two,
        balanced(tmp_path, [one.address, two.address], mode="http") as proxy,
    ):
        both = Live(proxy, service=one.service, loop=one.loop)
        for _ in range(3):
            assert cli(both, cache).code == 0
