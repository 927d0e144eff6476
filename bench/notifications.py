"""Notifications: CPU per message of LIFECYCLE_EVENTS and of an oslo.messaging listener, in one run.

    python bench/notifications.py [--messages 6000] [--rate 1000] [--nodes 1000] [--rounds 3]

Both listen to one private RabbitMQ (Debian's) with a queue of their own bound to `nova`, and are sent
the same recorded notifications of a real Nova, at the same pace, about servers of which a hundredth
is ours. Ours decodes, finds the node and reads it from a backend that answers at once; the other side
is what Senlin had: `get_notification_listener` with a pool and threads, here with an endpoint that does
nothing but count. oslo.messaging comes from the package index into a throw-away virtual environment of
the same Python. CPU is that of the listening process, all threads, from the first message to the last.
Target: at most a third of it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from _measure import cpu_s, rss_bytes
from _python import ROOT, described, system_python

sys.path.insert(0, str(ROOT))

from tests.servers import rabbitmq as rabbit
from tests.servers.rabbitmq import RabbitMQ

TARGET = 3.0
SAMPLES = ROOT / "tests" / "unit" / "lifecycle" / "samples" / "notifications.jsonl"
PATIENCE_S = 60.0

# argv: URL, FILE with one message a line (routing key, tab, body), rate, exchange
SEND = """
import asyncio, sys, time
import aio_pika

async def main(url, file, rate):
    connection = await aio_pika.connect(url)
    channel = await connection.channel(publisher_confirms=False)
    nova = await channel.declare_exchange("nova", aio_pika.ExchangeType.TOPIC)
    print("ready", flush=True)
    messages = [line.split(b"\\t", 1) for line in open(file, "rb").read().splitlines()]
    for _ in sys.stdin:
        began = time.monotonic()
        for number, (key, body) in enumerate(messages):
            if number % 20 == 0:
                await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            message = aio_pika.Message(
                body, content_type="application/json", content_encoding="utf-8")
            await nova.publish(message, routing_key=key.decode())
        print("sent", flush=True)

asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
"""

# argv: URL, count of messages in a round, nodes
OURS = """
import asyncio, sys, time
from pathlib import Path
import structlog, uvloop
from yaffle.drivers.detectors.lifecycle import LifecycleDetector
from yaffle.engine.runtime.clock import SystemClock
from yaffle.model.ids import ModeKey, NodeId
from yaffle.model.operations import Reading, Target
from yaffle.model.policy import DetectionMode, ModeType
from yaffle.ports import DriverContext

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
KIND = "bench-1.0"
UP = Reading(exists=True, up=True, backend_status="ACTIVE", detail="")

class Backend:
    async def read(self, targets, *, deadline_s):
        return [UP] * len(targets)

async def main(url, count, nodes):
    detector = LifecycleDetector(DriverContext(
        clock=SystemClock(), state_dir=Path("/"), profiles={KIND: Backend()},
        settings={"sources": {"bench": {"urls": [url], "queue_length": 100000}}}))
    told = []
    detector.watch("w", [Target(node_id=NodeId(f"n{n}"), name=f"n{n}", physical_id=f"{n:036d}",
                                profile_type=KIND, spec={}) for n in range(nodes)],
                   DetectionMode(key=ModeKey("0:LIFECYCLE_EVENTS"), type=ModeType.LIFECYCLE_EVENTS),
                   interval_s=10.0, sink=told.extend)
    while not detector.listening or detector.vouched < nodes:
        await asyncio.sleep(0.05)
    print("ready", flush=True)
    kinds = ("heard", "unknown type", "step of a task that goes on", "cannot be read",
             "publisher that does not send such")
    due = count
    while True:
        await asyncio.sleep(0.05)
        if sum(detector.counts.get(kind, 0) for kind in kinds) >= due:
            due += count
            print("done", detector.counts["woke"], flush=True)

uvloop.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""

THEIRS = """
import sys, threading
from oslo_config import cfg
import oslo_messaging as om

url, count = sys.argv[1], int(sys.argv[2])
seen = 0
lock = threading.Lock()

class Endpoint:
    def info(self, ctxt, publisher_id, event_type, payload, metadata):
        global seen
        with lock:
            seen += 1
            if seen % count == 0:
                print("done", seen, flush=True)
    error = info

transport = om.get_notification_transport(cfg.ConfigOpts(), url=url)
targets = [om.Target(topic=t, exchange="nova") for t in ("notifications", "versioned_notifications")]
listener = om.get_notification_listener(
    transport, targets, [Endpoint()], executor="threading", pool="bench")
listener.start()
print("ready", flush=True)
threading.Event().wait()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one round took."""

    cpu_us: float
    """Per message."""
    rate: float
    rss_bytes: int


class Child:
    """A process that is told and answers by lines."""

    def __init__(
        self, python: Path | str, code: str, *arguments: str, isolated: bool = False
    ) -> None:
        flags = ["-I"] if isolated else []
        self._process = subprocess.Popen(
            [python, *flags, "-c", code, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.line() == "ready"

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def line(self) -> str:
        """Wait for the next line."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE_S)
        assert ready, f"the process said nothing for {PATIENCE_S:g} s"
        line = self._process.stdout.readline()
        assert line, "the process has ended"
        return line.strip()

    def go(self) -> None:
        """Let it begin."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()


def messages(count: int, nodes: int) -> bytes:
    """Return so many recorded notifications about the servers of a cloud, a hundredth of them ours."""
    samples = []
    for line in SAMPLES.read_text().splitlines():
        sample = json.loads(line)
        inner = json.loads(sample["body"]["oslo.message"])
        payload = inner["payload"]
        data = payload.get("nova_object.data", payload) if isinstance(payload, dict) else {}
        ident = data.get("uuid") or data.get("instance_id")
        if sample["exchange"] == "nova" and ident:
            samples.append((sample["routing_key"], json.dumps(sample["body"]), ident))
    lines = []
    for number in range(count):
        key, body, ident = samples[number % len(samples)]
        server = number * 7919 % (nodes * 100)
        lines.append(f"{key}\t{body.replace(ident, f'{server:036d}')}".encode())
    return b"\n".join(lines) + b"\n"


def measured(child: Child, sender: Child, count: int) -> Cost:
    """Send one round and wait until it is through."""
    time.sleep(1.0)
    cpu, began = cpu_s(child.pid), time.monotonic()
    sender.go()
    child.line()
    cost = Cost(
        cpu_us=(cpu_s(child.pid) - cpu) / count * 1e6,
        rate=count / (time.monotonic() - began),
        rss_bytes=rss_bytes(child.pid),
    )
    assert sender.line() == "sent"
    return cost


@contextlib.contextmanager
def oslo() -> Iterator[Path]:
    """A throw-away interpreter that has oslo.messaging and nothing of ours."""
    with tempfile.TemporaryDirectory(prefix="notifications-") as folder:
        base = Path(getattr(sys, "_base_executable", sys.executable))
        subprocess.check_call([base, "-I", "-m", "venv", folder])
        python = Path(folder, "bin", "python")
        subprocess.check_call([python, "-I", "-m", "pip", "install", "-q", "oslo.messaging"])
        yield python


def shown(name: str, cost: Cost) -> str:
    """One line of a table."""
    return (
        f"  {name:<15} {cost.cpu_us:8.1f} µs CPU a message {cost.rate:7.0f}/s"
        f" {cost.rss_bytes / 1e6:6.1f} MB"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=6000, help="in each round")
    parser.add_argument("--rate", type=float, default=1000.0, help="messages a second")
    parser.add_argument("--nodes", type=int, default=1000, help="that are watched")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    system_python()
    if rabbit.program() is None:
        sys.exit("no RabbitMQ is installed (package rabbitmq-server)")
    print(described())
    os.environ["PYTHONWARNINGS"] = "ignore"
    ours: list[Cost] = []
    theirs: list[Cost] = []
    server = RabbitMQ()
    with oslo() as python, tempfile.NamedTemporaryFile() as file, contextlib.ExitStack() as stack:
        stack.callback(server.remove)
        server.start()
        file.write(messages(args.messages, args.nodes))
        file.flush()
        named = "import importlib.metadata as m; print(m.version('oslo.messaging'))"
        version = subprocess.check_output([python, "-I", "-c", named], text=True).strip()
        print(f"oslo.messaging {version}; {args.messages} messages a round, {args.rate:g}/s")
        for _ in range(args.rounds):
            for name, costs in (("yaffle", ours), ("oslo.messaging", theirs)):
                sender = Child(sys.executable, SEND, server.url, file.name, str(args.rate))
                stack.callback(sender.end)
                if name == "yaffle":
                    child = Child(
                        sys.executable, OURS, server.url, str(args.messages), str(args.nodes)
                    )
                else:
                    url = server.url.replace("amqp://", "rabbit://")
                    child = Child(python, THEIRS, url, str(args.messages), isolated=True)
                stack.callback(child.end)
                measured(child, sender, args.messages)  # warm
                costs.append(measured(child, sender, args.messages))
                print(shown(name, costs[-1]), flush=True)
                child.end()
                sender.end()
    medians = [statistics.median(cost.cpu_us for cost in costs) for costs in (ours, theirs)]
    ratio = medians[1] / medians[0]
    print(
        f"median: yaffle {medians[0]:.1f} µs, oslo.messaging {medians[1]:.1f} µs:"
        f" {ratio:.1f} times less"
    )
    print(f"target >= {TARGET:g} times less: {'met' if ratio >= TARGET else 'MISSED'}")
    sys.exit(0 if ratio >= TARGET else 1)


if __name__ == "__main__":
    main()
