"""The rules of a UNIX socket's file: never open to more than it should be, never somebody else's.

The socket is bound under another name, given its mode and group, made to listen, and then renamed
over the path: nobody ever meets it with a wrong mode or deaf. What stands in the way is removed only
if it is a socket that refuses connections. At the end the file is removed only if it is still ours.
`umask` is left alone: it belongs to all threads of the host.
"""

from __future__ import annotations

import _socket
import contextlib
import dataclasses
import errno
import fcntl
import grp
import os
import stat
import time
from collections.abc import Iterable, Iterator
from typing import Final

from yaffle_health.errors import BadOption, BindFailed
from yaffle_health.server.held import Descriptor, held
from yaffle_health.uris import SUN_PATH_MAX, Address, Unix

BACKLOG: Final = 1024
GID_MAX: Final = 2**32 - 1
"""This one means "leave the group as it is" to chown(2)."""
TURN_WAIT_S: Final = 1.0
"""How long another process may hold the directory; then we go on without its leave."""
_CONNECT_WAIT_S: Final = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """Mode of the file, and its group if that is not the process's; `group` is how it was said."""

    mode: int = 0o660
    gid: int = -1
    group: str | int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A file that is ours, told by what it is and not by its name."""

    path: str
    device: int
    inode: int


def rights(mode: int, group: str | int | None) -> Rights:
    """Read the options; BadOption for a mode that is none, or a group that does not exist."""
    if not isinstance(mode, int) or isinstance(mode, bool) or not 0 <= mode <= 0o777:
        shown = oct(mode) if isinstance(mode, int) else mode
        raise BadOption("socket_mode", shown, "must be an octal number up to 0o777")
    if group is None:
        return Rights(mode=mode)
    if isinstance(group, bool) or not isinstance(group, int | str):
        raise BadOption("socket_group", group, "give the name of a group or its number")
    if isinstance(group, int):
        if not 0 <= group < GID_MAX:
            raise BadOption("socket_group", group, f"must be from 0 to {GID_MAX - 1}")
        return Rights(mode=mode, gid=group, group=group)
    try:
        return Rights(mode=mode, gid=grp.getgrnam(group).gr_gid, group=group)
    except (KeyError, ValueError):
        raise BadOption("socket_group", group, "there is no such group") from None


def listen(
    address: Unix, wanted: Rights, ours: Iterable[Address] = ()
) -> tuple[_socket.socket, Owned]:
    """Listen there; BindFailed says what is in the way. `ours`: where this process listens already."""
    folder, name = os.path.split(address.path)
    try:
        opened = held.open(
            lambda: Descriptor(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        )
    except OSError as error:
        raise BindFailed(str(address), f"{folder}: {os.strerror(error.errno or 0)}") from error
    try:
        with _turn(opened.fd):
            _make_way(address, opened.fd, name, ours)
            return _bound(address, opened.fd, wanted)
    except OSError as error:
        raise BindFailed(str(address), _explained(error, folder, wanted)) from error
    finally:
        held.close(opened)


def remove(owned: Owned) -> None:
    """Remove the file if it is still the one that we made."""
    with contextlib.suppress(OSError):
        found = os.lstat(owned.path)
        if (found.st_dev, found.st_ino) == (owned.device, owned.inode):
            os.unlink(owned.path)  # noqa: PTH108 - no need to import pathlib into the host


@contextlib.contextmanager
def _turn(folder_fd: int) -> Iterator[None]:
    """One process at a time looks at the path and takes it; two would take it from each other."""
    until = time.monotonic() + TURN_WAIT_S
    while True:
        try:
            fcntl.flock(folder_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Anybody who may read the directory can hold this lock: it is a courtesy, no gate.
            if time.monotonic() >= until:
                break
            time.sleep(0.01)
        except OSError:
            break  # a file system without locks
        else:
            break
    yield  # closing the directory gives the lock back


def _make_way(address: Unix, folder_fd: int, name: str, ours: Iterable[Address]) -> None:
    try:
        found = os.lstat(name, dir_fd=folder_fd)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise BindFailed(str(address), "something that is no socket stands there: remove it")
    if _somebody_listens(address, _reachable(address.path, folder_fd, name)):
        who = "this process itself" if address in ours else "another process"
        raise BindFailed(str(address), f"{who} listens there")
    # Stale: the rename will put ours in its place.


def _somebody_listens(address: Unix, path: str) -> bool:
    probe = held.open(lambda: _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM))
    try:
        probe.settimeout(_CONNECT_WAIT_S)
        probe.connect(path)
    except ConnectionRefusedError:
        return False
    except FileNotFoundError:
        return False
    except (BlockingIOError, TimeoutError):
        return True  # its queue is full
    except OSError as error:
        why = f"cannot tell whether another process listens there: {os.strerror(error.errno or 0)}"
        raise BindFailed(str(address), why) from error
    finally:
        held.close(probe)
    return True


def _reachable(path: str, folder_fd: int, name: str) -> str:
    """A name for the file that fits into sun_path, whatever the length of the directory's."""
    if len(os.fsencode(path)) <= SUN_PATH_MAX:
        return path
    return f"/proc/self/fd/{folder_fd}/{name}"


def _bound(address: Unix, folder_fd: int, wanted: Rights) -> tuple[_socket.socket, Owned]:
    name = f".{os.urandom(4).hex()}"
    path = _reachable(f"{os.path.dirname(address.path)}/{name}", folder_fd, name)  # noqa: PTH120
    kind = _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK
    listener = held.open(lambda: _socket.socket(_socket.AF_UNIX, kind))
    try:
        # Before bind: Linux gives the file the socket's own mode, less the umask.
        os.fchmod(listener.fileno(), wanted.mode)
        listener.bind(path)
        try:
            if wanted.gid != -1:
                os.chown(name, -1, wanted.gid, dir_fd=folder_fd, follow_symlinks=False)
            os.chmod(name, wanted.mode, dir_fd=folder_fd)
            listener.listen(BACKLOG)
            made = os.lstat(name, dir_fd=folder_fd)
            os.rename(name, address.path, src_dir_fd=folder_fd)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder_fd)
            raise
    except BaseException:
        held.close(listener)
        raise
    return listener, Owned(path=address.path, device=made.st_dev, inode=made.st_ino)


def _explained(error: OSError, folder: str, wanted: Rights) -> str:
    reason = os.strerror(error.errno or 0)
    if error.errno in {errno.EACCES, errno.EROFS}:
        return f"{reason}: this process must be able to write to {folder}"
    if error.errno == errno.EPERM and wanted.group is not None:
        why = "a group can be given only by one of its members"
        return f"{reason}: [healthcheck] socket_group = {wanted.group!r}: {why}"
    return reason
