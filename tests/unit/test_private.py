"""What another may write is refused, and the message says what to type."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from yaffle.api.auth.secure_file import Watched, private_stamp
from yaffle.config import load
from yaffle.config.private import writer_fault
from yaffle.drivers.detectors.lifecycle.settings import LifecycleSettings
from yaffle.drivers.workflows.command.settings import CommandSettings
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import ConfigError
from yaffle.integrations.driver_settings import Section, read_secret
from yaffle.integrations.secret_box import KeyFile
from yaffle.store.database import open_store
from yaffle.wiring import made_dir

NOBODY = 65_534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def database(folder: Path) -> None:
    """Open a database in the folder, as an engine does."""
    open_store(f"sqlite:///{folder / 'yaffle.db'}", clock=SystemClock())


def users(file: Path) -> object:
    return Watched(file, str, setting="server.users_file", clock=SystemClock())


def program(file: Path) -> dict[str, object]:
    return {"commands": {"x": {"argv": ["/bin/true"], "env_files": {"TOKEN": str(file)}}}}


def broker(file: Path) -> dict[str, object]:
    tls = {"cert_file": str(file.with_name("cert")), "key_file": str(file)}
    return {"sources": {"lab": {"urls": ["amqps://u:p@mq.example/"], **tls}}}


FILES: dict[str, Callable[[Path], object]] = {
    "users": users,
    "secret": lambda file: read_secret(file, "notifiers.ops.secret_file"),
    "keys": lambda file: KeyFile(file).check(),
    "server's key": lambda file: private_stamp(file, "server.tls_key"),
    "program's": lambda file: CommandSettings.read(Section("COMMAND", program(file))),
    "broker's key": lambda file: LifecycleSettings.read(Section("LIFECYCLE_EVENTS", broker(file))),
}


def test_a_new_state_directory_is_ours_alone(tmp_path: Path) -> None:
    made_dir(tmp_path / "a" / "state")
    assert stat.S_IMODE((tmp_path / "a" / "state").stat().st_mode) == 0o700
    made_dir(tmp_path / "a" / "state")


@pytest.mark.parametrize("mode", [0o777, 0o702, 0o1777])
def test_a_state_directory_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(ConfigError, match=f"state_dir = .*others may write.*chmod 700 {tmp_path}"):
        made_dir(tmp_path)


@as_root
def test_a_state_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, NOBODY, NOBODY)
    with pytest.raises(ConfigError, match=r"belongs to .*, and this is root; run it as [^,]*$"):
        made_dir(tmp_path)


def test_a_group_is_others_only_if_somebody_is_in_it(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    tmp_path.chmod(0o770)
    taken = next(one for one in pwd.getpwall() if one.pw_uid != 0 and one.pw_gid != 0)
    free = max(one.gr_gid for one in grp.getgrall() if one.gr_gid < NOBODY) + 1
    os.chown(tmp_path, 0, taken.pw_gid)
    assert "others may write" in (writer_fault(tmp_path, tmp_path.stat()) or "")
    os.chown(tmp_path, 0, free)
    assert writer_fault(tmp_path, tmp_path.stat()) is None


def test_a_database_behind_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    target = tmp_path / "elsewhere" / "real.db"
    (tmp_path / "yaffle.db").symlink_to(target)
    with pytest.raises(ConfigError, match=f"symbolic link.*sqlite:///{target}"):
        database(tmp_path)
    assert not target.exists()


def test_a_lock_is_taken_behind_no_link(tmp_path: Path) -> None:
    (tmp_path / "yaffle.db.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(Exception, match="symbolic link"):
        database(tmp_path)
    assert not (tmp_path / "precious").exists()


def test_a_database_that_others_may_write_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "yaffle.db"
    file.touch()
    file.chmod(0o602)
    with pytest.raises(ConfigError, match=f"chmod 600 {file}"):
        database(tmp_path)
    file.chmod(0o600)
    tmp_path.chmod(0o777)
    with pytest.raises(ConfigError, match=f"chmod 700 {tmp_path}"):
        database(tmp_path)


@as_root
def test_a_database_of_somebody_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "yaffle.db"
    file.touch(mode=0o600)
    os.chown(file, NOBODY, NOBODY)
    with pytest.raises(ConfigError, match="this is root; run it as"):
        database(tmp_path)


@pytest.mark.parametrize("kind", FILES)
def test_a_file_of_secrets_that_others_may_write_is_refused(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "file"
    file.write_text("x" * 40)
    file.chmod(0o602)
    with pytest.raises(ConfigError, match=f"chmod 600 {file}"):
        FILES[kind](file)


@as_root
@pytest.mark.parametrize("kind", FILES)
def test_a_file_of_secrets_of_somebody_else_is_refused(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "file"
    file.write_text("x" * 40)
    file.chmod(0o600)
    os.chown(file, NOBODY, NOBODY)
    with pytest.raises(ConfigError, match=f"chown root {file}"):
        FILES[kind](file)


# --- what is on the way, and the settings themselves ----------------------------------------------


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("mode", [0o604, 0o620, 0o644])
def test_a_file_of_secrets_that_others_may_read_is_refused(
    tmp_path: Path, kind: str, mode: int
) -> None:
    file = tmp_path / "file"
    file.write_text("x" * 40)
    file.chmod(mode)
    with pytest.raises(ConfigError, match=f"others may read or change it.*chmod 600 {file}"):
        FILES[kind](file)


@as_root
@pytest.mark.parametrize("kind", FILES)
def test_a_secret_may_be_read_by_a_group_without_others(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "file"
    file.write_text("x" * 40)
    file.chmod(0o640)
    taken = next(one for one in pwd.getpwall() if one.pw_uid != 0 and one.pw_gid != 0)
    os.chown(file, 0, taken.pw_gid)
    with pytest.raises(ConfigError, match="others may read"):
        FILES[kind](file)


@pytest.mark.parametrize("mode", [0o602, 0o646, 0o666])
def test_settings_that_others_may_write_are_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "yaffle.toml"
    file.write_text("[log]\nlevel = 'error'\n")
    assert load(file).log.level == "error"
    file.chmod(mode)
    with pytest.raises(ConfigError, match=f"--config .*others may write it.*chmod go-w {file}"):
        load(file)
    file.chmod(mode & ~0o022)
    assert load(file).log.level == "error"


@as_root
def test_settings_of_somebody_else_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "yaffle.toml"
    file.touch(mode=0o600)
    os.chown(file, NOBODY, NOBODY)
    with pytest.raises(ConfigError, match="belongs to"):
        load(file)


OPEN: dict[str, Callable[[Path], Path]] = {
    # Where the link lies, where it leads, where a link on the way leads, and no link at all.
    "of the link": lambda top: linked(top / "open" / "state", top / "far"),
    "of its target": lambda top: linked(top / "state", top / "open" / "far"),
    "of a link to a link": lambda top: linked(
        top / "state", linked(top / "open" / "middle", top / "far")
    ),
    "above a link": lambda top: linked(top / "open" / "a" / "state", top / "far"),
    "above the folder": lambda top: top / "open" / "a" / "state",
}


def linked(link: Path, target: Path) -> Path:
    if not target.is_symlink():
        target.mkdir(parents=True, exist_ok=True, mode=0o700)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    return link


@pytest.mark.parametrize("where", OPEN)
@pytest.mark.parametrize("use", ["state", "database"])
def test_a_folder_on_the_way_that_others_may_write_is_refused(
    tmp_path: Path, where: str, use: str
) -> None:
    place = OPEN[where](tmp_path)
    made_dir(place)
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(ConfigError, match=f"on the way to it.*chmod go-w {tmp_path / 'open'}"):
        made_dir(place) if use == "state" else database(place)
    # There others may add, and yet not put anything in the place of what is ours.
    (tmp_path / "open").chmod(0o1777)
    made_dir(place)


@as_root
def test_somebody_elses_link_in_a_shared_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    place = linked(tmp_path / "state", tmp_path / "far")
    made_dir(place)
    os.chown(place, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(ConfigError, match="belongs to"):
        made_dir(place)
