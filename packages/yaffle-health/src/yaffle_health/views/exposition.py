"""Health as gauges in Prometheus' text format, without the client library.

A state is a set of gauges of which one is 1, as in OpenMetrics' StateSet: alerts read
`yaffle_health_status{state="fail"} == 1`, and no number has to be remembered.
"""

from __future__ import annotations

from collections.abc import Iterator

from yaffle_health.model import Check, Health, Status

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def exposition(health: Health) -> str:
    """Return the whole text, ending in a newline."""
    return "\n".join((*_overall(health), *_states(health), *_ages(health))) + "\n"


def _overall(health: Health) -> Iterator[str]:
    service = health.service
    yield "# HELP yaffle_health_status State of the process: the gauge of its state is 1."
    yield "# TYPE yaffle_health_status gauge"
    for state in Status:
        labels = _labels(service=service.description, host=service.host, state=state.value)
        yield f"yaffle_health_status{labels} {int(health.status is state)}"


def _states(health: Health) -> Iterator[str]:
    yield "# HELP yaffle_health_check_status State of one check: the gauge of its state is 1."
    yield "# TYPE yaffle_health_check_status gauge"
    for check in health.checks:
        for state in Status:
            labels = _of(check, state=state.value)
            yield f"yaffle_health_check_status{labels} {int(check.status is state)}"


def _ages(health: Health) -> Iterator[str]:
    yield "# HELP yaffle_health_check_age_seconds How long ago the check was last reported."
    yield "# TYPE yaffle_health_check_age_seconds gauge"
    for check in health.checks:
        yield f"yaffle_health_check_age_seconds{_of(check)} {check.age_s:.3f}"


def _of(check: Check, **more: str) -> str:
    return _labels(check=check.name, component=check.component_id or "", **more)


def _labels(**labels: str) -> str:
    pairs = (f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"
