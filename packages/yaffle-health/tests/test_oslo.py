"""[healthcheck] through oslo.config, and a nova-like service that uses it, forks, reloads and ends."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from health_servers import free_port, view
from health_wire import eventually
from oslo_config import cfg

import yaffle_health
from yaffle_health.errors import HealthError
from yaffle_health.model import Health, Status
from yaffle_health.oslo import Healthcheck, list_opts, register_opts
from yaffle_health.reader import Problem, Target

Configure = Callable[..., cfg.ConfigOpts]


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    """Return what reads a configuration file with this section [healthcheck]."""

    def read(**section: str) -> cfg.ConfigOpts:
        lines = "\n".join(f"{name} = {value}" for name, value in section.items())
        (tmp_path / "nova.conf").write_text(f"[DEFAULT]\nhost = c-1\n[healthcheck]\n{lines}\n")
        conf = cfg.ConfigOpts()
        conf.register_opts([cfg.StrOpt("host")])
        conf(["--config-file", str(tmp_path / "nova.conf")], project="nova")
        return conf

    return read


class RequestContext:
    """As nova's: an object of its own that only gains an attribute."""

    healthcheck_manager: yaffle_health.Manager


@yaffle_health.healthcheck("database", [ConnectionError])
def query(context: RequestContext, *, lost: bool) -> None:
    if lost:
        raise ConnectionError("lost")


def test_disabled_by_default(configure: Configure) -> None:
    hc = Healthcheck(configure(), binary="nova-compute").start()
    assert hc.endpoint is not None
    assert (hc.endpoint.addresses, hc.failures) == ((), ())
    hc.stop()


def test_the_seeds_life_of_a_service(configure: Configure, tmp_path: Path) -> None:
    port = free_port()
    conf = configure(uri=f"tcp://127.0.0.1:{port}, unix://{tmp_path}/nova-compute.sock")
    hc = Healthcheck(
        conf, binary="nova-compute", service_id="e3c22423", hostname="hv-1", required=True
    ).start()
    assert yaffle_health.find() is hc.manager
    context = RequestContext()
    hc.attach(context)
    with pytest.raises(ConnectionError):
        query(context, lost=True)
    for target in (
        Target(host="127.0.0.1", port=port),
        Target(path=f"{tmp_path}/nova-compute.sock"),
    ):
        reading = view(target)
        assert (reading.status, reading.http_status) == (Status.FAIL, 503)
        assert reading.health is not None
        service = reading.health.service
        assert (service.service_id, service.description) == ("e3c22423", "nova-compute")
        assert (service.host, service.hostname) == ("c-1", "hv-1")
    query(context, lost=False)
    assert view(target).status is Status.PASS
    hc.stop()
    assert view(target).problem is Problem.MISSING
    assert yaffle_health.find(None) is None


def test_the_contexts_manager_is_found_without_a_default(configure: Configure) -> None:
    hc = Healthcheck(configure(), binary="x")
    context = RequestContext()
    hc.attach(context)
    query(context, lost=False)
    assert [c.name for c in hc.manager.health().checks] == ["database"]


def test_reset_forgets_the_items_and_keeps_the_listener(
    configure: Configure, tmp_path: Path
) -> None:
    target = Target(path=f"{tmp_path}/a.sock")
    conf = configure(uri=f"unix://{target.path}", ttl="100")
    hc = Healthcheck(conf, binary="x", required=True).start()
    hc.manager.report("database", "fail", "lost")
    before = hc.endpoint
    hc.reset()
    assert view(target).status is Status.PASS
    assert hc.endpoint is before
    text = (tmp_path / "nova.conf").read_text().replace("a.sock", "b.sock")
    (tmp_path / "nova.conf").write_text(text.replace("ttl = 100", "ttl = 7"))
    conf.reload_config_files()
    hc.reset()
    assert hc.manager.ttl_s == 7
    assert view(target).problem is Problem.MISSING
    assert view(Target(path=f"{tmp_path}/b.sock")).status is Status.PASS
    hc.stop()


def test_the_cache_headers_of_the_options(configure: Configure, tmp_path: Path) -> None:
    import http.client
    import socket

    def header(**section: str) -> str | None:
        conf = configure(uri=f"unix://{tmp_path}/s", **section)
        hc = Healthcheck(conf, binary="x", required=True).start()
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(f"{tmp_path}/s")
        connection.request("GET", "/health")
        response = connection.getresponse()
        response.read()
        connection.close()
        hc.stop()
        return response.getheader("Cache-Control")

    assert header() == "max-age=300"
    assert header(ttl="60") == "max-age=60"
    assert header(ttl="0") is None
    assert header(ttl="60", cache_control="10") == "max-age=10"
    assert header(cache_control="0") is None
    assert header(cache_control="-1") == "no-cache"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("uri", "tcp://localhost:424242"),
        ("uri", "unix://run/x.sock"),
        ("ttl", "-5"),
        ("ttl", "soon"),
        ("cache_control", "-2"),
        ("format", "xml"),
        ("socket_mode", "999"),
        ("socket_group", "no-such-group"),
        ("apart", "perhaps"),
    ],
)
def test_a_bad_value_is_named_and_does_not_stop_the_service(
    configure: Configure,
    option: str,
    value: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    section = {"uri": f"unix://{tmp_path}/s", option: value}
    with caplog.at_level(logging.ERROR, "yaffle_health"):
        hc = Healthcheck(configure(**section), binary="x").start()
    assert hc.endpoint is not None
    assert hc.endpoint.addresses == ()
    assert len(hc.failures) == 1
    for text in (str(hc.failures[0]), caplog.text):
        assert option in text
        assert value in text
    hc.stop()
    with pytest.raises(HealthError, match=option):
        Healthcheck(configure(**section), binary="x", required=True).start()
    yaffle_health.set_default(None)


def test_a_bind_that_fails_names_the_address(configure: Configure, tmp_path: Path) -> None:
    where = f"unix://{tmp_path}/none/s"
    hc = Healthcheck(configure(uri=where), binary="x").start()
    assert where in str(hc.failures[0])
    hc.stop()
    with pytest.raises(HealthError, match="none/s"):
        Healthcheck(configure(uri=where), binary="x", required=True).start()
    yaffle_health.set_default(None)


def test_it_shares_its_section_with_oslo_middleware(configure: Configure) -> None:
    conf = configure()
    register_opts(conf)
    register_opts(conf)
    theirs = ["path", "detailed", "backends", "allowed_source_ranges", "ignore_proxied_requests"]
    theirs += ["disable_by_file_path", "disable_by_file_paths", "enable_by_file_paths"]
    assert not set(theirs) & {opt.name for _, opts in list_opts() for opt in opts}
    conf.register_opts([cfg.StrOpt(name) for name in theirs], group="healthcheck")


def test_the_sample_generator_lists_the_options(tmp_path: Path) -> None:
    """Through the entry point, as this distribution's pyproject.toml declares it."""
    known = importlib.metadata.entry_points(group="oslo.config.opts", name="yaffle_health")
    if not known:
        project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
        points = project["project"]["entry-points"]["oslo.config.opts"]
        about = tmp_path / "entry_points_of_yaffle_health-0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: entry\nVersion: 0\n")
        lines = "\n".join(f"{name} = {place}" for name, place in points.items())
        (about / "entry_points.txt").write_text(f"[oslo.config.opts]\n{lines}\n")
    generator = Path(sys.executable).parent / "oslo-config-generator"
    ran = subprocess.run(
        [generator, "--namespace", "yaffle_health"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    sample = ran.stdout
    assert "[healthcheck]" in sample
    for line in (
        "#uri = unix:///run/nova/nova-compute.sock",
        "#ttl = 300",
        "#cache_control = the value of ttl",
        "# Minimum value: 0",
        "# Minimum value: -1",
        "#format = nova",
        "#apart = false",
    ):
        assert line in sample.splitlines(), sample


def test_it_may_be_served_apart(configure: Configure, tmp_path: Path) -> None:
    target = Target(path=f"{tmp_path}/s")
    for section, apart in (({}, False), ({"apart": "true"}, True), ({"apart": "no"}, False)):
        conf = configure(uri=f"unix://{target.path}", **section)
        hc = Healthcheck(conf, binary="x", required=True).start()
        assert view(target).status is Status.PASS
        assert hc.endpoint is not None
        if apart:
            # It answers before it has said who it is.
            eventually(lambda: hc.endpoint.helper_pid is not None)  # noqa: B023
        else:
            assert hc.endpoint.helper_pid is None
        hc.stop()


WORKERS = """
import os, signal, sys
from oslo_config import cfg
from yaffle_health.oslo import Healthcheck

conf = cfg.ConfigOpts()
conf.register_opts([cfg.StrOpt("host")])
conf(["--config-file", "nova.conf"], project="nova")
for _ in range(2):
    if os.fork() == 0:
        # What nova's Service.start() would do, in the child of oslo.service's launcher.
        hc = Healthcheck(conf, binary="nova-conductor", required=True).start()
        hc.manager.passed("message_bus")
        signal.pause()
signal.pause()
"""


def test_several_workers_have_a_socket_each(configure: Configure, tmp_path: Path) -> None:
    from health_servers import children, running, until

    from yaffle_health.prefork import Workers

    (tmp_path / "run").mkdir()
    configure(uri=f"unix://{tmp_path}/run/{{pid}}.sock")
    (tmp_path / "service.py").write_text(WORKERS)
    workers = Workers(tmp_path / "run", expected=2, fresh_s=0, timeout_s=30)
    with running([sys.executable, "service.py"], tmp_path) as process:

        def speakers(health: Health) -> set[str | None]:
            return {c.component_id for c in health.checks if c.name == "message_bus"}

        # One that has not said anything yet is well, too.
        health = until(workers.health, lambda h: h.status is Status.PASS and len(speakers(h)) == 2)
        assert speakers(health) == {str(pid) for pid in children(process.pid)}
