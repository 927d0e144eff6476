"""A password is exchanged for a session: who gets one, what it is worth, and all that ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.functional.api.live import PREFIX, Live, running
from tests.functional.api.people import PEOPLE, basic, private, token_file, users_file
from tests.waiting import wait_until

from yaffle.api.auth import Given, passwords, read_identity
from yaffle.api.auth.sessions import OF_USER_MAX
from yaffle.config import ServerSettings
from yaffle.engine.runtime.clock import SystemClock

MARA = basic("mara", "correct horse")
WORDS = {"mara": "correct horse", "ben": "battery staple"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return users_file(tmp_path, **WORDS)


@pytest.fixture
def live(tmp_path: Path, file: Path) -> Iterator[Live]:
    files = {"token_file": token_file(tmp_path), "users_file": file}
    with running(tmp_path / "state", server=files) as found:
        yield found


def ask(
    live: Live, headers: dict[str, str], path: str = f"{PREFIX}/nodes", method: str = "GET"
) -> httpx.Response:
    with live.client(headers) as client:
        return client.request(method, path)


def begin(live: Live, headers: dict[str, str]) -> httpx.Response:
    return ask(live, headers, f"{PREFIX}/sessions", "POST")


def session(live: Live, headers: dict[str, str] = MARA) -> dict[str, str]:
    answer = begin(live, headers)
    assert answer.status_code == 201, answer.text
    return {"Authorization": f"Bearer {answer.json()['session']['token']}"}


def soon(live: Live, headers: dict[str, str], status: int) -> None:
    """Wait until the credentials are answered so; a file is looked at once a second."""
    wait_until(lambda: ask(live, headers).status_code, lambda found: found == status)


def test_a_session_is_worth_its_password_in_both_apis(live: Live) -> None:
    answer = begin(live, MARA)
    assert answer.json()["session"]["expires_in_s"] == 43_200
    assert answer.headers["cache-control"] == "no-store"
    mine = session(live)
    assert ask(live, mine).status_code == 200
    assert ask(live, mine, "/v1/nodes").status_code == 200
    # A member's: what needs an administrator stays shut.
    assert ask(live, mine, f"{PREFIX}/doctor").status_code == 403


def test_only_a_password_is_exchanged(live: Live) -> None:
    assert begin(live, {}).status_code == 401
    assert begin(live, basic("ben", "wrong")).status_code == 401
    # A session that begins the next one would never end.
    assert begin(live, session(live)).status_code == 400
    assert begin(live, PEOPLE["reader"].headers).status_code == 400


def test_an_ended_session_is_over(live: Live) -> None:
    mine, other = session(live), session(live)
    assert ask(live, mine, f"{PREFIX}/sessions", "DELETE").status_code == 204
    assert ask(live, mine).status_code == 401
    assert ask(live, mine, f"{PREFIX}/sessions", "DELETE").status_code == 401
    assert ask(live, other).status_code == 200
    assert ask(live, MARA, f"{PREFIX}/sessions", "DELETE").status_code == 400


def test_who_is_changed_or_removed_is_out_and_nobody_else(live: Live, file: Path) -> None:
    first, lines = file.read_text(), file.read_text().splitlines()
    mine, bens = session(live), session(live, basic("ben", WORDS["ben"]))
    # Other roles count at once, in the session that is there.
    private(file, first.replace(":member", ":reader"))
    wait_until(lambda: ask(live, mine, "/v1/receivers").status_code, lambda status: status == 403)
    assert ask(live, mine).status_code == 200
    # The very same password, hashed anew, is a change of it.
    again = f"mara:{passwords.hashed(WORDS['mara'])}:one:member"
    private(file, f"{again}\n{lines[1]}\n")
    soon(live, mine, 401)
    assert ask(live, bens).status_code == 200
    private(file, f"{again}\n")
    soon(live, bens, 401)


def test_it_ends_by_itself(tmp_path: Path, file: Path) -> None:
    server = {"users_file": file, "session_life": 2}
    with running(tmp_path / "brief", server=server) as live:
        mine = session(live)
        assert ask(live, mine).status_code == 200
        soon(live, mine, 401)


def test_the_oldest_of_somebody_go_and_no_token_is_kept(file: Path) -> None:
    async def told() -> None:
        identity = read_identity(ServerSettings(users_file=file), SystemClock())
        sessions = identity.sessions
        assert sessions is not None

        async def begun(headers: dict[str, str]) -> str:
            known = await identity.who(Given(authorization=headers["Authorization"]))
            assert known is not None
            return sessions.begin(known)

        async def is_known(token: str) -> bool:
            return await identity.who(Given(authorization=f"Bearer {token}")) is not None

        bens = await begun(basic("ben", WORDS["ben"]))
        own = [await begun(MARA) for _ in range(OF_USER_MAX + 1)]
        assert [await is_known(token) for token in own] == [False] + [True] * OF_USER_MAX
        assert await is_known(bens)
        assert not any(token in repr(vars(sessions)) for token in own)

    asyncio.run(told())
