"""The body of `/health`: what seed 4 asks for, the same whichever commands a process runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from yaffle.api.doctor.report import Check, Report, Status

WORDS = {Status.OK: "pass", Status.WARN: "warn", Status.FAIL: "fail"}


def document(
    checks: Sequence[Check], *, now_us: int, service_id: str, host: str
) -> tuple[dict[str, object], bool]:
    """Return the document, and whether the process is well."""
    worst = Report(checks=checks).status
    time = datetime.fromtimestamp(now_us // 1_000_000, UTC).isoformat()
    body: dict[str, object] = {
        "status": WORDS[worst],
        "version": "1.0",
        "serviceId": service_id,
        "description": "yaffle",
        "notes": {"host": host},
        "checks": {
            c.name: {
                "status": WORDS[c.status],
                "time": time,
                **({} if c.status is Status.OK else {"output": c.detail}),
            }
            for c in checks
        },
    }
    return body, worst is not Status.FAIL
