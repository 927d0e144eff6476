"""A RabbitMQ of the lab's own, with an Erlang name server of its own: the machine's is never touched."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from lab.openstack import templates
from lab.openstack.errors import LabError
from lab.openstack.packages import RABBITMQ
from lab.openstack.plan import Plan
from lab.openstack.processes import Service

TOOL_S: Final = 180.0
# One scheduler that sleeps when it has nothing to do; it spins otherwise.
_ERLANG: Final = (
    "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none"
)


def folder(plan: Plan) -> Path:
    """Return where queues and the Erlang cookie are."""
    return plan.data / "rabbitmq"


def configure(plan: Plan) -> None:
    """Write the server's configuration."""
    templates.write(plan, "rabbitmq.conf", plan.etc / "rabbitmq.conf", port=str(plan.ports.bus))
    (plan.etc / "rabbitmq-plugins").write_text("[].\n")
    for path in (folder(plan), folder(plan) / "mnesia", plan.log / "rabbitmq"):
        path.mkdir(exist_ok=True)


def services(plan: Plan) -> list[Service]:
    """Return the name server and the bus, in the order in which they start."""
    env = environment(plan)
    epmd = shutil.which("epmd") or "epmd"
    return [
        Service(name="epmd", command=(epmd,), env=env, answers=f"tcp:{plan.ports.epmd}"),
        Service(
            name="rabbitmq",
            command=(str(RABBITMQ),),
            env=env,
            answers=f"tcp:{plan.ports.bus}",
            log=plan.log / "rabbitmq" / f"{_node(plan)}.log",
        ),
    ]


def environment(plan: Plan) -> dict[str, str]:
    """Return what RabbitMQ and its tools need to find each other: `rabbitmqctl` works with it."""
    home = folder(plan)
    return {
        "HOME": str(home),
        "ERL_EPMD_PORT": str(plan.ports.epmd),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": _node(plan),
        "RABBITMQ_DIST_PORT": str(plan.ports.erlang),
        "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
        "RABBITMQ_LOG_BASE": str(plan.log / "rabbitmq"),
        "RABBITMQ_CONFIG_FILE": str(plan.etc / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plan.etc / "rabbitmq-plugins"),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_PID_FILE": str(home / "pid"),
        "RABBITMQ_GENERATED_CONFIG_DIR": str(home / "generated"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _ERLANG,
    }


def consumed(plan: Plan, queues: set[str]) -> bool:
    """Say whether somebody listens to each of `queues`: a bus that is back is of no use before."""
    done = _tool(plan, "list_queues", "name", "consumers", "--no-table-headers")
    rows = [line.split() for line in done.stdout.splitlines()]
    return queues <= {row[0] for row in rows if len(row) == 2 and row[1] != "0"}


def lose(plan: Plan, queue: str) -> None:
    """Lose the messages that wait in a queue, as a bus does that comes back without its disk."""
    done = _tool(plan, "purge_queue", queue)
    if done.returncode:
        raise LabError(f"queue {queue} cannot be emptied: {done.stderr.strip()}")


def _tool(plan: Plan, *words: str) -> subprocess.CompletedProcess[str]:
    tool = RABBITMQ.with_name("rabbitmqctl")
    return subprocess.run(
        [str(tool), "-q", *words],
        env={"PATH": os.environ.get("PATH", os.defpath), **environment(plan)},
        capture_output=True,
        text=True,
        timeout=TOOL_S,
        check=False,
    )


def _node(plan: Plan) -> str:
    return f"lab{plan.ports.bus}@localhost"
