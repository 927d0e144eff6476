"""The lab as one thing: bring a cluster up, do harm to its hosts, ask it, take it down."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from lab.openstack.errors import LabError, last_lines
from lab.openstack.progress import Progress
from lab.pacemaker import configuration, power
from lab.pacemaker.power import HERE

ROOT: Final = HERE.parents[1]
REMOTED: Final = ROOT / ".venv" / "pacemaker-lab" / "pacemaker-remoted"
ENGINE: Final = ROOT / "packaging" / "pacemaker" / "engine"
MARKS: Final = ROOT / "src" / "yaffle" / "integrations" / "fence_yaffle.py"
NEEDED: Final = ("pacemakerd", "corosync", "cibadmin", "crm_mon", "ip", "unshare", "nsenter")
COMMANDS: Final = (
    *("crm_mon", "cibadmin", "crm_attribute", "crm_resource", "crm_node", "crmadmin"),
    *("attrd_updater", "stonith_admin"),
)
UP_S: Final = 120.0
POLL_S: Final = 0.2
FORGOTTEN_S: Final = 30.0
RECONNECT_S: Final = 5.0


def missing() -> list[str]:
    """Return the programs that are not installed."""
    return [name for name in NEEDED if shutil.which(name) is None]


def prepare() -> None:
    """Fetch what is not installed: Debian's pacemaker-remote conflicts with its pacemaker.

    Raises LabError where that is not possible.
    """
    if absent := missing():
        raise LabError(
            f"missing: {', '.join(absent)}; as root: apt-get install pacemaker"
            " pacemaker-cli-utils corosync iproute2"
        )
    if REMOTED.exists():
        return
    if (installed := shutil.which("pacemaker-remoted")) is not None:
        REMOTED.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(installed, REMOTED)
        return
    fetched = REMOTED.parent / "fetched"
    shutil.rmtree(fetched, ignore_errors=True)
    fetched.mkdir(parents=True)
    _run("apt-get", "download", "-q", "pacemaker-remote", cwd=fetched, within_s=120)
    (package,) = fetched.glob("*.deb")
    _run("dpkg", "-x", str(package), str(fetched))
    (fetched / "usr/sbin/pacemaker-remoted").rename(REMOTED)
    shutil.rmtree(fetched)


class PacemakerLab:
    """One cluster of `c1…` members and `h001…` remote hosts; everything of it is below `state`."""

    def __init__(self, state: Path) -> None:
        self.state = state.absolute()
        self.bin = self.state / "bin"
        """Pacemaker's commands as somebody on a member would call them."""
        self.lab = "yp" + hashlib.sha256(str(self.state).encode()).hexdigest()[:5]
        self._controller: subprocess.Popen[bytes] | None = None
        self.members: list[str] = []
        self.remotes: list[str] = []
        with contextlib.suppress(OSError, ValueError):
            facts = json.loads((self.state / "lab.json").read_text())
            self.members = [name for name in facts["hosts"] if name.startswith("c")]
            self.remotes = [name for name in facts["hosts"] if name.startswith("h")]

    # --- up and down ------------------------------------------------------------------------------

    def up(
        self,
        *,
        hosts: int = 3,
        members: int = 1,
        action: str = "reboot",
        monitor_s: int = 5,
        stays: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """Bring it up and wait until every host is online; raises LabError.

        `stays`: when this process has ended; else it goes down with it, however that ends.
        """
        progress = progress or Progress(quiet=True)
        if os.geteuid() != 0:
            raise LabError("the lab makes network namespaces: it needs root")
        prepare()
        self.members = [f"c{i}" for i in range(1, members + 1)]
        self.remotes = [f"h{i:03}" for i in range(1, hosts + 1)]
        with progress.stage("network"):
            self._folders(action, monitor_s)
            self._network()
        with progress.stage(f"{hosts} hosts and {members} members started"):
            self._start_power(stays=stays)
            for name in (*self.remotes, *self.members):
                self.power("on", name)
        with progress.stage("cluster formed, every host online"):
            self.until(lambda: self.online() >= set(self.remotes), UP_S, "every host is online")

    def _folders(self, action: str, monitor_s: int) -> None:
        for name in ("hosts", "sbin", "bin", "ocf/yaffle"):
            (self.state / name).mkdir(parents=True, exist_ok=True)
        names = [*self.members, *self.remotes]
        (self.state / "lab.json").write_text(json.dumps({"lab": self.lab, "hosts": names}))
        (self.state / "authkey").write_bytes(secrets.token_bytes(4096))
        shutil.copy(REMOTED, self.bin / "pacemaker-remoted")
        for agent in (HERE / "inside" / "fence_lab", MARKS):
            installed = self.state / "sbin" / agent.stem
            shutil.copy(agent, installed)
            installed.chmod(0o755)
        shutil.copy(ENGINE, self.state / "ocf" / "yaffle" / "engine")
        (self.state / "sbin" / "lab-power").write_text(str(self.state / "power.sock"))
        written = configuration.cib(self.members, self.remotes, action=action, monitor_s=monitor_s)
        for name in self.members:
            own = self.state / "hosts" / name / "fs"
            (own / "etc/corosync").mkdir(parents=True, exist_ok=True)
            (own / "etc/corosync/corosync.conf").write_text(
                configuration.corosync(self.lab, self.members)
            )
            cibs = own / "var/lib/pacemaker/cib"
            cibs.mkdir(parents=True, exist_ok=True)
            (cibs / "cib.xml").write_text(written)
            (cibs / "cib.xml").chmod(0o600)
        for command in COMMANDS:
            shim = self.bin / command
            shim.write_text(
                f"#!/bin/sh\nexec {sys.executable} -SE {HERE}/inside/at.py {self.state}"
                f' "${{LAB_AT:-c1}}" {command} "$@"\n'
            )
            shim.chmod(0o755)

    def _network(self) -> None:
        switch = f"{self.lab}-sw"
        present = set(_run("ip", "netns", "list").split())
        if switch not in present:
            _run("ip", "netns", "add", switch)
            _run("ip", "-n", switch, "link", "add", "sw0", "type", "bridge", "forward_delay", "0")
            _run("ip", "-n", switch, "link", "set", "sw0", "up")
        for name in (*self.members, *self.remotes):
            own = f"{self.lab}-{name}"
            if own in present:
                continue
            _run("ip", "netns", "add", own)
            pair = f"link add p{name} type veth peer name eth0 netns {own}\n"
            _run(
                "ip", "-n", switch, "-batch", "-", given=pair + f"link set p{name} master sw0 up\n"
            )
            lines = f"addr add {configuration.address(name)}/16 dev eth0\n"
            _run("ip", "-n", own, "-batch", "-", given=lines + "link set eth0 up\nlink set lo up\n")

    def _start_power(self, *, stays: bool) -> None:
        log = self.state / "power.out"
        with log.open("ab") as out:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "lab.pacemaker.power",
                    str(self.state),
                    str(0 if stays else os.getpid()),
                ],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._controller = process
        (self.state / "power.pid").write_text(str(process.pid))

        def answers() -> bool:
            if process.poll() is not None:
                raise LabError(f"the power controller ended:\n{last_lines(log)}")
            try:
                return bool(power.ask(self.state, "list"))
            except OSError:
                return False

        self.until(answers, 10, "the power controller answers")

    def down(self) -> None:
        """Stop all that was started there, and remove its namespaces; logs stay."""
        with contextlib.suppress(OSError, ValueError):
            pid = int((self.state / "power.pid").read_text())
            if str(self.state) in Path(f"/proc/{pid}/cmdline").read_text():
                os.kill(pid, signal.SIGTERM)
                if self._controller is not None:
                    self._controller.wait(120)
                self.until(lambda: _gone(pid), 30, "the power controller has ended")
        for name in _run("ip", "netns", "list").split():
            if name.startswith(f"{self.lab}-"):
                for pid in map(int, _run("ip", "netns", "pids", name).split()):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                _run("ip", "netns", "del", name)
        (self.state / "power.pid").unlink(missing_ok=True)

    # --- harm, and questions ----------------------------------------------------------------------

    def power(self, verb: str, host: str, word: str = "") -> str:
        """Do one thing to a host: on, off, panic, freeze, thaw, cut, mend, bmc.

        `word` is for `bmc` alone: see power.FAULTS.
        """
        try:
            return power.ask(self.state, verb, host, word)
        except OSError as error:
            raise LabError(f"{error}; see {self.state}/power.out") from error

    def recorded(self) -> list[dict[str, object]]:
        """Return what was switched, and what the BMCs were asked, in the order in which it was done.

        at, done (s since the epoch), verb, host, bmc (how it was), by (member, machine or `hand`), said.
        """
        try:
            lines = (self.state / "power.log").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]

    def inside(self, host: str, words: Sequence[str]) -> list[str]:
        """Return the command that runs `words` on a host; raises LabError where it is off."""
        first = self.power("pid", host)
        return ["nsenter", "-t", first, "-m", "-n", "-u", "-p", "--wd=/", "--", *words]

    def run(self, *words: str, host: str = "c1", within_s: float = 30.0) -> str:
        """Run a command on a host and return what it prints; raises LabError where it fails."""
        return _run(*self.inside(host, words), within_s=within_s)

    def online(self) -> set[str]:
        """Return the remote hosts that are members now: `online` of crm_mon is said too early."""
        try:
            status = self.run("cibadmin", "-Q", "--xpath", "//node_state", "--no-children")
        except LabError:
            return set()
        states = ET.fromstring(f"<all>{status}</all>").iter("node_state")
        return {
            str(state.get("uname"))
            for state in states
            if state.get("remote_node") == "true"
            # One that was fenced by hand is called a member on.
            and (state.get("in_ccm"), state.get("node_fenced", "0")) == ("true", "0")
        }

    def bring_back(self) -> None:
        """Switch every host on and wait until it is online; raises LabError.

        A person's part as well: the cluster forgets at times to connect anew to a host whose power was
        cut behind its back, and does not come to it again.
        """

        def back() -> bool:
            # Again and again: one whose BMC has just come back is switched off once more.
            for name in self.remotes:
                self.power("on", name)
            return self.online() >= set(self.remotes)

        try:
            self.until(back, FORGOTTEN_S, "every host is online")
        except LabError:
            for name in set(self.remotes) - self.online():
                self.reconnect(name)
            self.until(back, 2 * FORGOTTEN_S, "every host is online")

    def reconnect(self, host: str) -> None:
        """Stop the cluster's connection to a host on purpose, and start it again."""
        role = ("crm_resource", "-r", host, "--meta")
        self.run(*role, "-p", "target-role", "-v", "Stopped")
        time.sleep(RECONNECT_S)
        self.run(*role, "-d", "target-role")
        self.run("crm_resource", "--cleanup", "-r", host)
        time.sleep(2 * RECONNECT_S)

    def until(self, done: Callable[[], object], within_s: float, what: str) -> None:
        """Wait; raises LabError where it does not come true in time."""
        end_s = time.monotonic() + within_s
        while not done():
            if time.monotonic() > end_s:
                raise LabError(
                    f"not so within {within_s:g} s: {what}; logs: {self.state}/hosts/*/log"
                )
            time.sleep(POLL_S)


def _gone(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    return True


def _run(*words: str, given: str = "", cwd: Path | None = None, within_s: float = 30.0) -> str:
    try:
        done = subprocess.run(
            words,
            input=given,
            capture_output=True,
            text=True,
            timeout=within_s,
            cwd=cwd,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{' '.join(words)}: {error}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise LabError(f"{' '.join(words)}: exit {done.returncode}: {said}")
    return done.stdout
