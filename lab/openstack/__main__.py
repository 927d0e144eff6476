"""The lab's command line: `python -m lab.openstack up`, and what comes after it."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from lab.openstack import keeper, packages
from lab.openstack.errors import LabError
from lab.openstack.lab import Lab, new
from lab.openstack.plan import EXTRAS, HERE, HOME
from lab.openstack.progress import Progress


def default_state() -> Path:
    """Return where the lab of this account is when none is named."""
    return Path(tempfile.gettempdir()) / f"yaffle-openstack-{os.geteuid()}"


def up(options: argparse.Namespace) -> None:
    """Bring the lab up and say how it is used."""
    lab = _new(options)
    lab.up(Progress())
    state = lab.plan.state
    print(
        f"\nThe cloud is up. By hand:\n  . {state}/openrc && openstack server list\n"
        f"From programs (cloud `lab`):\n  OS_CLIENT_CONFIG_FILE={state}/clouds.yaml\n"
        f"Its message bus:\n  {lab.plan.bus_url}\n"
        f"Break it:\n  .venv/bin/python -m lab.openstack --help\n"
        f"End it:\n  make lab-openstack-down{_state_word(options)}"
    )


def _state_word(options: argparse.Namespace) -> str:
    return "" if options.state == default_state() else f" STATE={options.state}"


def _new(options: argparse.Namespace) -> Lab:
    return new(
        options.state,
        base=options.port_base,
        computes=options.computes,
        heat=options.heat,
        extras=[name for name in EXTRAS if getattr(options, name)],
        packages=options.packages,
        cache=options.cache,
    )


def prepare(options: argparse.Namespace) -> None:
    """Install packages and keep an empty cloud, so that the next lab is quick."""
    progress = Progress()
    where = {"packages": options.packages, "cache": options.cache}
    keeper.prepare(heat=options.heat, progress=progress, **where)


def down(options: argparse.Namespace) -> None:
    """Stop everything that was started there."""
    lost = Lab.at(options.state).down()
    print("stopped" + (f"; {lost} processes had been lost and were killed" if lost else ""))


def status(options: argparse.Namespace) -> None:
    """Say what runs; exit code 1 if something does not."""
    lab = Lab.at(options.state)
    dead = 0
    for service in lab.services():
        process = lab.processes.find(service.name)
        dead += process is None
        state = "dead" if process is None else f"{process.pid} {process.status()}"
        print(f"  {service.name:<24}{state:<20}{service.answers}")
    sys.exit(1 if dead else 0)


def env(options: argparse.Namespace) -> None:
    """Print what a shell needs: eval "$(python -m lab.openstack env)"."""
    print((Lab.at(options.state).plan.state / "openrc").read_text(), end="")


def guest(options: argparse.Namespace) -> None:
    """Do something to a server's guest without Nova being asked."""
    found = Lab.at(options.state).guest(options.server)
    getattr(found, options.what)()


def trouble(options: argparse.Namespace) -> None:
    """Let an operation fail, or be slow, until `repair`."""
    lab = Lab.at(options.state)
    if options.slow:
        lab.slow(options.host, options.operation, options.slow, options.only)
    else:
        lab.fail(options.host, options.operation, options.only)


def service(options: argparse.Namespace) -> None:
    """Start, stop, kill, freeze or thaw one service; `status` shows their names."""
    getattr(Lab.at(options.state), options.what)(options.name)


def repair(options: argparse.Namespace) -> None:
    """Take back all that was broken."""
    Lab.at(options.state).repair()


def keep(options: argparse.Namespace) -> None:
    """Bring a lab up for a process, and remove it when that process has ended."""
    keeper.keep(_new(options), owner=options.owner, ticks=options.ticks)


def lock(options: argparse.Namespace) -> None:
    """Resolve every requirements….in into its lock again."""
    for wishes in sorted(HERE.glob("requirements*.in")):
        packages.resolve(wishes, wishes.with_suffix(".lock"))


def parser() -> argparse.ArgumentParser:
    """Return the grammar of the command line."""
    top = argparse.ArgumentParser(prog="python -m lab.openstack", description=__doc__)
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--state", type=Path, default=default_state(), help="the lab's folder")
    what = argparse.ArgumentParser(add_help=False, parents=[where])
    what.add_argument("--computes", type=int, default=2, help="compute hosts (2)")
    what.add_argument("--heat", action="store_true", help="with Heat")
    for name in EXTRAS:
        what.add_argument(f"--{name}", action="store_true", help=f"with {name.capitalize()}")
    what.add_argument("--port-base", type=int, default=0, help="use the ports after this one")
    what.add_argument(
        "--packages", type=Path, default=HOME / "packages", help="Python of the cloud"
    )
    what.add_argument("--cache", type=Path, default=HOME / "cache", help="where it is kept empty")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def add(
        run: Callable[[argparse.Namespace], None], like: argparse.ArgumentParser
    ) -> argparse.ArgumentParser:
        summary = (run.__doc__ or "").strip()
        found = commands.add_parser(run.__name__, help=summary, description=summary, parents=[like])
        found.set_defaults(run=run)
        return found

    for command in (up, prepare):
        add(command, what)
    for command in (down, status, env, repair):
        add(command, where)
    add(lock, where)
    words = add(guest, where)
    words.add_argument("server", help="its id")
    words.add_argument("what", choices=["off", "on", "pause", "vanish"])
    words = add(trouble, where)
    words.add_argument("host")
    words.add_argument("operation", help="spawn, reboot, power_off, destroy, …")
    words.add_argument("--slow", type=float, default=0.0, help="be slow for so many seconds")
    words.add_argument("--only", default="", help="one server's or one project's id")
    words = add(service, where)
    words.add_argument("what", choices=["start", "stop", "kill", "freeze", "thaw"])
    words.add_argument("name")
    words = add(keep, what)
    words.add_argument("--owner", type=int, required=True, help="the process that it is for")
    words.add_argument("--ticks", type=int, required=True, help="when that process began")
    return top


def main() -> None:
    """Run one command; say what went wrong without a traceback."""
    options = parser().parse_args()
    try:
        options.run(options)
    except LabError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
