"""Status polling of Nova servers: CPU per 1,000 servers, ours and openstacksdk's, in one run.

    python bench/nova_list.py [--servers 1000] [--rounds 20]

A small server answers as a Nova with so many servers would (2.7 KB each, as a real one tells them to an
administrator), in pages of a thousand; it runs in a process of its own and is not counted. Ours reads
all nodes through the profile `os.nova.server-1.0`: a full list, and then only what has changed since.
The other side is what Senlin had at best: `connection.compute.servers()`, its objects and nothing done
with them. CPU is that of the client, all threads. Target: at most a hundredth of it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import openstack
from _python import described, system_python

from yaffle.drivers.profiles.nova_server import NovaServer
from yaffle.engine.runtime.clock import SystemClock
from yaffle.model.ids import NodeId
from yaffle.model.operations import Target
from yaffle.ports import DriverContext

TARGET = 100.0
PAGE = 1000
CHANGED = 10
"""Servers that have changed since the last sweep."""
THEIR_ROUNDS = 3


# --- a Nova ----------------------------------------------------------------------------------------


def server(number: int, root: str) -> dict[str, Any]:
    """One server, with the fields and about the length that a real Nova gives it."""
    ident = str(uuid.UUID(int=number + (4 << 76) + (2 << 62)))
    image, node = str(uuid.UUID(int=number % 7)), str(uuid.UUID(int=number + 10**9))
    address = {"version": 4, "OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:00:00:01"}
    return {
        "id": ident,
        "name": f"web-{number}",
        "status": "ACTIVE",
        "tenant_id": "1dcb4a33e2fe4f5ea5c743d0194a76fc",
        "user_id": "eb44e18805cd471aaf872194bb4c2851",
        "metadata": {
            "cluster_id": str(uuid.UUID(int=5)),
            "cluster_node_id": node,
            "cluster_node_index": str(number),
            "yaffle_operation": str(uuid.UUID(int=number + 10**12)),
        },
        "hostId": "a726e50c0c545a31ac3629fda4e13b4e5d5795ac74c208f32f067fc2",
        "image": {"id": image, "links": [{"rel": "bookmark", "href": f"{root}/images/{image}"}]},
        "flavor": {
            "vcpus": 2, "ram": 4096, "disk": 20, "ephemeral": 0, "swap": 0,
            "original_name": "m1.medium", "extra_specs": {"hw:cpu_policy": "shared"},
        },
        "created": "2026-11-20T10:00:00Z",
        "updated": "2026-11-20T10:00:42Z",
        "addresses": {
            "private": [
                address | {"addr": f"10.0.{number // 250}.{number % 250}", "OS-EXT-IPS:type": "fixed"},
                address | {"addr": f"192.0.2.{number % 250}", "OS-EXT-IPS:type": "floating"},
            ]
        },
        "accessIPv4": "", "accessIPv6": "",
        "links": [
            {"rel": "self", "href": f"{root}/v2.1/servers/{ident}"},
            {"rel": "bookmark", "href": f"{root}/servers/{ident}"},
        ],
        "OS-DCF:diskConfig": "AUTO",
        "progress": 0,
        "OS-EXT-AZ:availability_zone": "nova",
        "config_drive": "",
        "key_name": "ops",
        "OS-SRV-USG:launched_at": "2026-11-20T10:00:41.000000",
        "OS-SRV-USG:terminated_at": None,
        "OS-EXT-SRV-ATTR:host": f"compute-{number % 40}",
        "OS-EXT-SRV-ATTR:instance_name": f"instance-{number:08x}",
        "OS-EXT-SRV-ATTR:hypervisor_hostname": f"compute-{number % 40}",
        "OS-EXT-SRV-ATTR:hostname": f"web-{number}",
        "OS-EXT-SRV-ATTR:kernel_id": "",
        "OS-EXT-SRV-ATTR:launch_index": 0,
        "OS-EXT-SRV-ATTR:ramdisk_id": "",
        "OS-EXT-SRV-ATTR:reservation_id": "r-5k4c14w9",
        "OS-EXT-SRV-ATTR:root_device_name": "/dev/vda",
        "OS-EXT-SRV-ATTR:user_data": None,
        "OS-EXT-STS:task_state": None,
        "OS-EXT-STS:vm_state": "active",
        "OS-EXT-STS:power_state": 1,
        "os-extended-volumes:volumes_attached": [],
        "security_groups": [{"name": "default"}],
        "locked": False,
        "description": None,
        "tags": [],
        "trusted_image_certificates": None,
        "locked_reason": None,
        "host_status": "UP",
    }  # fmt: skip


def serve(count: int) -> None:
    """Be that Nova until the input ends; the first line of the output is its address."""
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    root = f"http://127.0.0.1:{httpd.server_address[1]}"
    servers = [server(number, root) for number in range(count)]
    told = {
        "id": "v2.1", "status": "CURRENT", "version": "2.104", "min_version": "2.1",
        "updated": "2013-07-23T11:33:21Z", "media-types": [],
        "links": [{"rel": "self", "href": f"{root}/v2.1/"}],
    }  # fmt: skip
    places = {one["id"]: place for place, one in enumerate(servers)}
    pages: dict[str, bytes] = {}

    def page(query: dict[str, list[str]]) -> bytes:
        after = query.get("marker", [""])[0]
        begin = places[after] + 1 if after else 0
        size = CHANGED if "changes-since" in query else PAGE
        key = f"{begin} {size}"
        if key not in pages:
            document: dict[str, Any] = {"servers": servers[begin : begin + size]}
            if size == PAGE and begin + size < count:
                href = f"{root}/v2.1/servers/detail?limit={PAGE}&marker={servers[begin + size - 1]['id']}"
                document["servers_links"] = [{"rel": "next", "href": href}]
            pages[key] = json.dumps(document).encode()
        return pages[key]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            if asked.path.endswith("/servers/detail"):
                body = page(parse_qs(asked.query))
            else:
                body = json.dumps({"version": told}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    httpd.RequestHandlerClass = Handler
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    print(root, flush=True)
    sys.stdin.read()


# --- the two sides ---------------------------------------------------------------------------------


def cost(work: Callable[[], int], rounds: int, expected: int) -> float:
    """Return the CPU of one round, in ms; all threads of this process count."""
    taken = []
    for _ in range(rounds):
        gc.collect()
        began_s = time.process_time()
        found = work()
        taken.append((time.process_time() - began_s) * 1e3)
        assert found == expected, (found, expected)
    return statistics.median(taken)


def ours(url: str, count: int, rounds: int) -> tuple[float, float]:
    """Return the CPU of a full list and of a list of changes, with a reading for each node."""
    with tempfile.TemporaryDirectory() as folder:
        clouds = Path(folder) / "clouds.yaml"
        auth = {"auth_type": "none", "auth": {"endpoint": f"{url}/v2.1"}}
        clouds.write_text(json.dumps({"clouds": {"bench": auth}}))
        settings = {"cloud": "bench", "clouds_file": str(clouds), "all_projects": True}

        def profile(full_sweep: float) -> NovaServer:
            return NovaServer(
                DriverContext(
                    clock=SystemClock(),
                    state_dir=Path(folder),
                    settings=settings | {"full_sweep": full_sweep},
                )
            )

        nodes = [server(number, url) for number in range(count)]
        targets = [
            Target(
                node_id=NodeId(one["metadata"]["cluster_node_id"]),
                name=one["name"],
                physical_id=one["id"],
                profile_type="os.nova.server-1.0",
                spec={},
            )
            for one in nodes
        ]

        def measured(full_sweep: float, pause_s: float) -> float:
            made = profile(full_sweep)

            async def read() -> int:
                readings = await made.read(targets, deadline_s=60)
                return sum(reading.up is True for reading in readings)

            with asyncio.Runner() as runner:

                def work() -> int:
                    return runner.run(read())

                work()

                def again() -> int:
                    time.sleep(pause_s)
                    return work()

                return cost(again, rounds, count)

        return measured(1.0, 1.01), measured(3600.0, 0.0)


def theirs(url: str, count: int) -> float:
    """Return the CPU of `compute.servers()`."""
    connection = openstack.connect(
        auth_type="none", auth={"endpoint": f"{url}/v2.1"}, compute_endpoint_override=f"{url}/v2.1"
    )

    def work() -> int:
        return len(list(connection.compute.servers(all_projects=True)))

    work()
    return cost(work, THEIR_ROUNDS, count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve(asked.servers)
        return
    system_python()
    warnings.simplefilter("ignore")
    print(described(), flush=True)
    command = [sys.executable, __file__, "--serve", "--servers", str(asked.servers)]
    nova = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert nova.stdin is not None
    assert nova.stdout is not None
    try:
        url = nova.stdout.readline().strip()
        scale = 1000 / asked.servers
        full, changes = (each * scale for each in ours(url, asked.servers, asked.rounds))
        sdk = theirs(url, asked.servers) * scale
    finally:
        nova.stdin.close()
        nova.wait(10)
        nova.stdout.close()
    print(f"CPU of the client for 1,000 servers, {asked.servers} in all, {asked.rounds} rounds:")
    print(f"  Yaffle, a full list and a reading each    {full:9.2f} ms")
    print(f"  Yaffle, only what changed ({CHANGED} servers)      {changes:9.2f} ms")
    print(
        f"  openstacksdk {version('openstacksdk')}, compute.servers()  {sdk:9.2f} ms"
        f"  ({THEIR_ROUNDS} rounds)"
    )
    print(
        f"full list: {sdk / full:.0f} × less (target {TARGET:g}); changes: {sdk / changes:.0f} × less"
    )


if __name__ == "__main__":
    main()
