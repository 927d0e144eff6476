"""A UNIX socket's file: its mode from the first moment, whose it is, and who removes it."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from health_wire import ask, serving

from yaffle_health.endpoint import serve
from yaffle_health.errors import BindFailed
from yaffle_health.manager import Manager
from yaffle_health.server import unix_socket
from yaffle_health.server.unix_socket import Rights
from yaffle_health.uris import SUN_PATH_MAX, Unix


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def stale(path: Path) -> None:
    """What a process leaves that was killed."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o177, 0o777])
@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
def test_the_mode_is_what_was_asked_for_whatever_the_umask(
    tmp_path: Path, mask: int, mode: int
) -> None:
    path = tmp_path / "health.sock"
    with umask(mask), serving(uri=f"unix://{path}", socket_mode=mode):
        assert mode_of(path) == mode
        now = os.umask(mask)
        assert now == mask, "the umask belongs to the host"
    assert not path.exists()


WATCHED = """
import os, stat, sys
from yaffle_health.server import unix_socket
from yaffle_health.uris import Unix
os.umask(0)
seen = []

def look(event, args):
    # Python tells before it does it: the mode that the file has had since bind.
    if event == "os.chmod" and isinstance(args[0], str):
        seen.append(oct(stat.S_IMODE(os.lstat(args[0], dir_fd=args[2]).st_mode)))

sys.addaudithook(look)
unix_socket.listen(Unix(sys.argv[1]), unix_socket.Rights(mode=0o600))
print(seen)
"""


def test_it_is_never_more_open_than_asked_for(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", WATCHED, str(tmp_path / "health.sock")]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['0o600']"


def test_the_group_can_be_chosen(tmp_path: Path) -> None:
    gid = os.getgroups()[-1] if os.getgroups() else os.getgid()
    path = tmp_path / "health.sock"
    with serving(uri=f"unix://{path}", socket_group=gid):
        assert path.stat().st_gid == gid


def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "health.sock"
    stale(path)
    with pytest.raises(ConnectionRefusedError):
        ask(Unix(str(path)))
    with serving(uri=f"unix://{path}") as endpoint:
        assert ask(endpoint.addresses[0]).status == 200
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_s_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "health.sock"
    code = (
        "import os, sys, yaffle_health as y;"
        f"y.serve(y.Manager(), uri='unix://{path}', required=True); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    assert path.is_socket()
    with serving(uri=f"unix://{path}") as endpoint:
        assert ask(endpoint.addresses[0]).status == 200


def test_a_living_one_is_left_alone(tmp_path: Path) -> None:
    with serving(uri=f"unix://{tmp_path}/health.sock") as first:
        second = serve(Manager(), uri=str(first.addresses[0]))
        assert not second.running
        assert "this process itself listens there" in str(second.failures[0])
        assert ask(first.addresses[0]).status == 200


def test_one_with_a_full_queue_is_living(tmp_path: Path) -> None:
    path = tmp_path / "health.sock"
    with socket.socket(socket.AF_UNIX) as busy, contextlib.ExitStack() as clients:
        busy.bind(str(path))
        busy.listen(0)
        while True:
            client = clients.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            try:
                client.connect(str(path))
            except BlockingIOError:
                break
        with pytest.raises(BindFailed, match="another process listens"):
            unix_socket.listen(Unix(str(path)), Rights())


@pytest.mark.parametrize("kind", ["file", "directory", "symlink", "fifo"])
def test_what_is_no_socket_is_never_removed(tmp_path: Path, kind: str) -> None:
    path, other = tmp_path / "health.sock", tmp_path / "other.sock"
    stale(other)
    match kind:
        case "file":
            path.write_text("precious")
        case "directory":
            path.mkdir()
        case "symlink":
            path.symlink_to(other)
        case _:
            os.mkfifo(path)
    before = path.lstat()
    endpoint = serve(Manager(), uri=f"unix://{path}")
    assert "no socket stands there" in str(endpoint.failures[0])
    assert path.lstat() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["health.sock", "other.sock"]


def test_the_file_is_removed_only_while_it_is_ours(tmp_path: Path) -> None:
    path = tmp_path / "health.sock"
    with serving(uri=f"unix://{path}"):
        path.unlink()
        stale(path)
        theirs = path.stat().st_ino
    assert path.stat().st_ino == theirs


def test_a_file_that_somebody_removed_does_not_disturb_the_end(tmp_path: Path) -> None:
    path = tmp_path / "health.sock"
    with serving(uri=f"unix://{path}"):
        path.unlink()


def test_the_longest_path_works_although_the_first_name_is_longer(tmp_path: Path) -> None:
    room = SUN_PATH_MAX - len(f"{tmp_path}//s")
    folder = tmp_path / ("d" * room)
    folder.mkdir()
    path = folder / "s"
    assert len(str(path)) == SUN_PATH_MAX
    with serving(uri=f"unix://{path}") as endpoint:
        assert ask(endpoint.addresses[0]).status == 200
    assert list(folder.iterdir()) == []


def test_two_that_start_together_do_not_take_it_from_each_other(tmp_path: Path) -> None:
    """One of many has it, and it is the one that answers."""
    path = tmp_path / "health.sock"
    for _ in range(20):
        stale(path)
        ready = threading.Barrier(4)
        got: list[tuple[socket.socket, unix_socket.Owned]] = []

        def start(ready: threading.Barrier = ready, got: list[object] = got) -> None:  # type: ignore[assignment]
            ready.wait()
            with contextlib.suppress(BindFailed):
                got.append(unix_socket.listen(Unix(str(path)), Rights()))

        threads = [threading.Thread(target=start) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ((listener, owned),) = got
        assert path.stat().st_ino == owned.inode
        listener.close()
        unix_socket.remove(owned)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody without rights")
def test_a_directory_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    code = (
        "import os, rfc3986.validators, yaffle_health as y; y.Endpoint; y.serve; y.Manager;"
        "os.setgid(65534); os.setuid(65534);"
        "e = y.serve(y.Manager(), uri='unix:///etc/health.sock'); print(e.failures[0])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Permission denied: this process must be able to write to /etc" in found.stdout


def test_the_process_id_in_the_path(tmp_path: Path) -> None:
    with serving(uri=f"unix://{tmp_path}/{{pid}}.sock") as endpoint:
        assert endpoint.addresses == (Unix(f"{tmp_path}/{os.getpid()}.sock"),)
        assert ask(endpoint.addresses[0]).status == 200


def test_the_file_goes_with_the_process(tmp_path: Path) -> None:
    path = tmp_path / "health.sock"
    code = (
        "import os, sys, yaffle_health as y;"
        f"y.serve(y.Manager(), uri='unix://{path}', required=True); print(os.path.exists('{path}'))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "True"
    assert not path.exists()
