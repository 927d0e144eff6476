"""The collector for prometheus_client, against the endpoint's own text exposition."""

from __future__ import annotations

import subprocess
import sys

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from yaffle_health.manager import Manager
from yaffle_health.prometheus import register
from yaffle_health.views import Shape, render


def a_manager() -> Manager:
    now = [100.0]
    manager = Manager(description='a "service"\\', host="c-1", clock=lambda: now[0])
    manager.report("stale", "fail", "lost", ttl_s=10)
    now[0] += 11
    manager.report("database", "fail", "lost", component_id='main\\"spare')
    manager.passed("bus")
    return manager


def sortable(text: str) -> object:
    return {
        name: (words, kind, sorted((n, tuple(sorted(labels.items())), v) for n, labels, v in rows))
        for name, (words, kind, rows) in _rows(text).items()
    }


def _rows(text: str) -> dict[str, tuple[str, str, list[tuple[str, dict[str, str], float]]]]:
    return {
        f.name: (f.documentation, f.type, [(s.name, s.labels, s.value) for s in f.samples])
        for f in text_string_to_metric_families(text)
    }


def test_both_ways_show_the_same_metrics() -> None:
    manager, registry = a_manager(), prometheus_client.CollectorRegistry()
    register(manager, registry)
    ours = prometheus_client.generate_latest(registry).decode()
    endpoint = render(manager.health(), Shape.PROMETHEUS).decode()
    assert sortable(ours) == sortable(endpoint)
    labels = {"check": "database", "component": 'main\\"spare', "state": "fail"}
    assert registry.get_sample_value("yaffle_health_check_status", labels) == 1
    assert registry.get_sample_value("yaffle_health_check_status", labels | {"state": "pass"}) == 0


def test_a_scrape_shows_the_moment_and_registering_does_not_read() -> None:
    manager, registry = Manager(), prometheus_client.CollectorRegistry()
    asked: list[str | None] = []
    register(lambda group: (asked.append(group), manager.health(group))[1], registry, group="ready")
    assert asked == []
    manager.report("database", "fail", "lost")
    labels = {"check": "database", "component": "", "state": "fail"}
    assert registry.get_sample_value("yaffle_health_check_status", labels) == 1
    manager.passed("database")
    assert registry.get_sample_value("yaffle_health_check_status", labels) == 0
    assert set(asked) == {"ready"}


def test_twice_in_one_registry_is_refused_by_it() -> None:
    registry = prometheus_client.CollectorRegistry()
    register(Manager(), registry)
    with pytest.raises(ValueError, match="yaffle_health_status"):
        register(Manager(), registry)


def test_without_prometheus_client_the_error_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "import yaffle_health.prometheus as p\n"
        "from yaffle_health import Manager\n"
        "try: p.register(Manager())\n"
        "except ImportError as error: print(error)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert "pip install 'yaffle-health[prometheus]'" in ran.stdout
