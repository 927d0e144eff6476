"""A real systemd, alone in namespaces of its own, that runs our units as they are packaged.

It is process 1 of a PID namespace: killing it ends everything that was started below it. /run, /opt,
/var/lib and /etc are its own, so users and files that it makes are nowhere else. Needs root.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path
from typing import Final

from tests.packaging.places import PACKAGING, ROOT
from tests.packaging.serving import until

TARGETS: Final = ("sysinit", "basic", "shutdown", "multi-user", "network-online", "time-sync")
HOME: Final = "/opt/yaffle"
UNSHARE: Final = (
    "setpriv --pdeathsig KILL unshare --pid --mount --uts --ipc --cgroup --fork --mount-proc"
    " --kill-child"
)
SAID: Final = "/run/said"
"""Where a drop-in may send what a unit says."""

# Mounts first, while the real places can still be seen; then systemd takes this shell's place.
SCRIPT: Final = """\
set -eu
mount -t tmpfs tmpfs {room}
mkdir {room}/upper {room}/work {room}/opt {room}/lib
mount -t overlay -o lowerdir=/etc,upperdir={room}/upper,workdir={room}/work overlay /etc
rm -rf /etc/systemd/system /etc/yaffle
mkdir -p {room}/opt/yaffle/bin {room}/opt/yaffle/src {room}/opt/yaffle/health {room}/opt/yaffle/site
mount --bind {src} {room}/opt/yaffle/src
mount --bind {health} {room}/opt/yaffle/health
mount --bind {site} {room}/opt/yaffle/site
cp {page} {room}/opt/yaffle/page.py
printf '%s\\n' '#!/bin/sh' \\
    'PYTHONPATH={home}/src:{home}/health:{home}/site exec {python} -P -m yaffle.cli "$@"' \\
    >{room}/opt/yaffle/bin/yaffle
chmod 755 {room} {room}/opt {room}/opt/yaffle {room}/opt/yaffle/bin {room}/opt/yaffle/bin/yaffle
mount --rbind {room}/opt /opt
mount --bind {room}/lib /var/lib
mount -t tmpfs tmpfs /run
umount -R -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
systemd-sysusers {packaging}/systemd/yaffle.sysusers
mkdir /etc/yaffle
cp {config}/* /etc/yaffle/
systemd-tmpfiles --create {packaging}/systemd/yaffle.tmpfiles
export container=other SYSTEMD_UNIT_PATH={units}
exec {systemd} --system --unit=multi-user.target --log-target=null --show-status=no
"""


def missing() -> str:
    """Return what this machine lacks for a systemd of our own; empty when it can be tried."""
    if os.geteuid() != 0:
        return "needs root, for namespaces"
    for tool in (
        "setpriv",
        "unshare",
        "nsenter",
        "systemctl",
        "systemd-sysusers",
        "systemd-tmpfiles",
    ):
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    if not interpreter():
        return "no interpreter of this version that everybody may run"
    return "" if systemd() else "there is no systemd"


def interpreter() -> str:
    """Return a Python of our version outside of anybody's home, where a service cannot look."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for path in (Path(sys.base_prefix).resolve() / "bin" / version, Path("/usr/bin") / version):
        if path.exists() and path.parts[1] not in {"root", "home"}:
            return str(path)
    return ""


def systemd() -> str:
    """Return the path of the program; empty when there is none."""
    for path in ("/usr/lib/systemd/systemd", "/lib/systemd/systemd"):
        if Path(path).exists():
            return path
    return ""


class Booted:
    """One such systemd."""

    def __init__(self, folder: Path, *, config: dict[str, str], drop_ins: dict[str, str]) -> None:
        """Boot; `config` is what lies in /etc/yaffle, `drop_ins` what is added to a unit."""
        self._folder = folder
        self.log = folder / "log"
        room, units, etc = folder / "room", folder / "units", folder / "etc"
        for made in (room, units, etc):
            made.mkdir()
        for name, text in config.items():
            (etc / name).write_text(text)
        for unit in (PACKAGING / "systemd").glob("*.service"):
            shutil.copy(unit, units)
        for target in TARGETS:
            (units / f"{target}.target").write_text("[Unit]\nDefaultDependencies=no\n")
        for unit, text in drop_ins.items():
            (units / f"{unit}.d").mkdir()
            (units / f"{unit}.d/test.conf").write_text(textwrap.dedent(text))
        script = folder / "boot.sh"
        script.write_text(
            SCRIPT.format(
                room=room,
                python=interpreter(),
                src=ROOT / "src",
                health=ROOT / "packages/yaffle-health/src",
                site=sysconfig.get_path("purelib"),
                page=ROOT / "tests/plain_page.py",
                home=HOME,
                packaging=PACKAGING,
                config=etc,
                units=units,
                systemd=systemd(),
            )
        )
        with self.log.open("wb") as log:
            self._outer = subprocess.Popen(
                # Should we be killed, it goes too.
                [*UNSHARE.split(), "sh", str(script)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._inner = until(self._first_child)
        until(self._answers)

    def _first_child(self) -> int | None:
        assert self._outer.poll() is None, self.log.read_text()
        pid = self._outer.pid
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(found[0]) if found else None

    def _answers(self) -> bool:
        assert self._outer.poll() is None, self.log.read_text()
        return self.run("systemctl", "is-active", "multi-user.target").stdout.strip() == "active"

    def run(self, *words: str, s: float = 100.0) -> subprocess.CompletedProcess[str]:
        """Run a command inside."""
        return subprocess.run(
            ["nsenter", "-t", str(self._inner), "-p", "-m", "-u", "-i", "-C", *words],
            capture_output=True,
            text=True,
            timeout=s,
            check=False,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
        )

    def ok(self, *words: str) -> str:
        """Run a command that has to succeed, and return its output."""
        done = self.run(*words)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}\n{self.tail()}"
        return done.stdout

    def yaffle(self, *words: str, state_dir: str = "/var/lib/yaffle") -> str:
        """Run a command as the user yaffle, as an operator would."""
        return self.ok(
            *("setpriv", "--reuid=yaffle", "--regid=yaffle", "--clear-groups", "env"),
            *((f"YAFFLE_STATE_DIR={state_dir}",) if state_dir else ()),
            *(f"{HOME}/bin/yaffle", *words),
        )

    def show(self, unit: str, key: str) -> str:
        """Return one property of a unit."""
        return self.ok("systemctl", "show", "--value", f"--property={key}", unit).strip()

    def tail(self) -> str:
        """Return the end of what our programs said, and how their units are."""
        said = self.run("sh", "-c", f"tail -n 40 {SAID}; systemctl status --no-pager 'yaffle*'")
        return self.log.read_text(errors="replace") + said.stdout

    def close(self) -> None:
        """End it, and with it everything that it started."""
        self._outer.send_signal(signal.SIGKILL)
        self._outer.wait(60)
        until(lambda: not Path(f"/proc/{self._inner}").exists())
