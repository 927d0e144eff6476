"""A BMC of our own: `ipmi_sim` on a free loopback port, its power switch a file that a script turns."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

from tests.private import private
from tests.servers.process import free_port

PASSWORD = "bmc-Passw0rd"
MISSING = [p for p in ("ipmi_sim", "ipmitool", "fence_ipmilan") if shutil.which(p) is None]

CHASSIS = """#!/bin/sh
# DEVICE get NAME | DEVICE set NAME VALUE, several in a row
shift
verb=$1; shift
while [ $# -gt 0 ]; do
    case $verb in
    get) [ "$1" = power ] && { grep -q on FOLDER/power && echo power:1 || echo power:0; }
         [ "$1" = power ] || echo "$1:0"; shift ;;
    set) echo "$1=$2" >> FOLDER/switched
         if [ "$1" = power ] && [ ! -e FOLDER/stuck ]; then
             [ "$2" = 1 ] && echo on > FOLDER/power || echo off > FOLDER/power
         fi; shift 2 ;;
    *) shift ;;
    esac
done
"""
LAN = """name "bmc"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 PORT
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "FOLDER/chassis.sh 0x20"
  user 1 true "" "test" user 10 none md2 md5 straight
  user 2 true "admin" "PASSWORD" admin 10 none md2 md5 straight
"""
EMULATION = """mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 1000 0x0a
mc_enable 0x20
"""


class Bmc:
    """One machine's controller; on at first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        (folder / "power").write_text("on\n")
        private(folder / "password", PASSWORD)
        (folder / "state").mkdir()
        chassis = folder / "chassis.sh"
        chassis.write_text(CHASSIS.replace("FOLDER", str(folder)))
        chassis.chmod(0o755)
        lan = LAN.replace("FOLDER", str(folder)).replace("PORT", str(self.port))
        (folder / "lan.conf").write_text(lan.replace("PASSWORD", PASSWORD))
        (folder / "sim.emu").write_text(EMULATION)
        self.process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [
                *("ipmi_sim", "-n", "-c", str(self.folder / "lan.conf")),
                *("-f", str(self.folder / "sim.emu"), "-s", str(self.folder / "state")),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
        )
        end_s = time.monotonic() + 120
        while "is on" not in self.ask("chassis", "power", "status"):
            assert process.poll() is None, "ipmi_sim ended"
            assert time.monotonic() < end_s, "ipmi_sim does not answer"
        return process

    def ask(self, *words: str) -> str:
        """Ask it as anybody could, without a fence agent."""
        done = subprocess.run(
            [
                *("ipmitool", "-I", "lanplus", "-H", "127.0.0.1", "-p", str(self.port)),
                *(
                    "-U",
                    "admin",
                    "-f",
                    str(self.folder / "password"),
                    "-C",
                    "3",
                    "-N",
                    "1",
                    "-R",
                    "2",
                ),
                *words,
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.stdout

    @property
    def power(self) -> str:
        return (self.folder / "power").read_text().strip()

    @property
    def switched(self) -> list[str]:
        path = self.folder / "switched"
        return path.read_text().split() if path.exists() else []

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)
