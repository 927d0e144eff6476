"""Health as metrics in a service that already exposes a prometheus_client registry.

The same families as `GET /health?format=prometheus`, so an alert works for both ways; whoever has no
registry needs no prometheus_client, only that URL. Nothing is stored: a scrape reads the manager.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from yaffle_health.manager import Manager
from yaffle_health.model import Check, Health, Status

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric
    from prometheus_client.core import GaugeMetricFamily

    from yaffle_health.http.answer import HealthOf

STATUS = "yaffle_health_status"
CHECK_STATUS = "yaffle_health_check_status"
CHECK_AGE = "yaffle_health_check_age_seconds"


class HealthCollector:
    """What a registry asks at each scrape (the collector protocol of prometheus_client)."""

    def __init__(self, source: Manager | HealthOf, *, group: str | None = None) -> None:
        """`group`: only the checks of that group."""
        self._health_of = source.health if isinstance(source, Manager) else source
        self._group = group

    def collect(self) -> Iterable[Metric]:
        """Return the families as they are now."""
        health = self._health_of(self._group)
        return (_overall(health), _states(health), _ages(health))

    def describe(self) -> Iterable[Metric]:
        """Return the families without samples, so that registering does not read the manager."""
        return (_status_family(), _state_family(), _age_family())


def register(
    source: Manager | HealthOf,
    registry: CollectorRegistry | None = None,
    *,
    group: str | None = None,
) -> HealthCollector:
    """Add the health to a registry (the default one if none is given) and return the collector.

    ImportError says what to install where prometheus_client is missing.
    """
    try:
        import prometheus_client
    except ImportError as error:
        hint = "prometheus_client is missing: pip install 'yaffle-health[prometheus]'"
        raise ImportError(hint) from error
    collector = HealthCollector(source, group=group)
    (prometheus_client.REGISTRY if registry is None else registry).register(collector)
    return collector


def _overall(health: Health) -> Metric:
    family = _status_family()
    for state in Status:
        labels = [health.service.description, health.service.host, state.value]
        family.add_metric(labels, int(health.status is state))
    return family


def _states(health: Health) -> Metric:
    family = _state_family()
    for check in health.checks:
        for state in Status:
            family.add_metric([*_of(check), state.value], int(check.status is state))
    return family


def _ages(health: Health) -> Metric:
    family = _age_family()
    for check in health.checks:
        family.add_metric(_of(check), check.age_s)
    return family


def _of(check: Check) -> list[str]:
    return [check.name, check.component_id or ""]


def _family(name: str, words: str, labels: list[str]) -> GaugeMetricFamily:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(name, words, labels=labels)


def _status_family() -> GaugeMetricFamily:
    words = "State of the process: the gauge of its state is 1."
    return _family(STATUS, words, ["service", "host", "state"])


def _state_family() -> GaugeMetricFamily:
    words = "State of one check: the gauge of its state is 1."
    return _family(CHECK_STATUS, words, ["check", "component", "state"])


def _age_family() -> GaugeMetricFamily:
    words = "How long ago the check was last reported."
    return _family(CHECK_AGE, words, ["check", "component"])
