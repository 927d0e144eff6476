"""The socket that wakes a host watcher, and the agent by which a cluster does."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

from yaffle.integrations.wake_socket import WakeSocket

AGENT = ROOT / "packaging/pacemaker/alert_yaffle"


def tell(path: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "CRM_alert_recipient": path}
    return subprocess.run(
        [str(AGENT)], env=env, capture_output=True, text=True, timeout=60, check=False
    )


async def is_woken(wake: WakeSocket, within_s: float = 20.0) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await wake.word()
    except TimeoutError:
        return False
    return True


def test_a_word_wakes_once_also_when_it_came_before_anybody_waited(tmp_path: Path) -> None:
    path = tmp_path / "wake"

    async def check() -> None:
        wake = WakeSocket(path)
        assert not await is_woken(wake, 0.1)
        for _ in range(3):
            assert (await asyncio.to_thread(tell, str(path))).returncode == 0
        assert await is_woken(wake)
        assert not await is_woken(wake, 0.3), "three words before it are one"
        # Removed by hand, or by the next start of another engine.
        path.unlink()
        assert not await is_woken(wake, 0.1)
        assert (await asyncio.to_thread(tell, str(path))).returncode == 0
        assert await is_woken(wake)
        wake.close()

    asyncio.run(check())


def test_one_that_was_left_by_a_dead_engine_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "wake"

    async def begin() -> WakeSocket:
        wake = WakeSocket(path)
        assert not await is_woken(wake, 0.1)
        return wake

    async def check() -> None:
        (await begin()).close()
        assert path.is_socket()
        wake = await begin()
        assert (await asyncio.to_thread(tell, str(path))).returncode == 0
        assert await is_woken(wake)
        wake.close()

    asyncio.run(check())


def test_where_it_cannot_listen_nobody_is_woken_and_nothing_fails(tmp_path: Path) -> None:
    assert not asyncio.run(is_woken(WakeSocket(tmp_path / "none" / "wake"), 0.1))


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        pytest.param("nobody", 0, "", id="no engine runs"),
        pytest.param("x" * 200, 1, "alert_yaffle: ", id="no path"),
        pytest.param("", 1, "alert_yaffle: ", id="no recipient"),
    ],
)
def test_the_agent_of_a_cluster_says_what_is_wrong_with_its_recipient(
    path: str, code: int, said: str, tmp_path: Path
) -> None:
    done = tell(str(tmp_path / path) if path else "")
    assert (done.returncode, done.stderr.startswith(said)) == (code, True), done
