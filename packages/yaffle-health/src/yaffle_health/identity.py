"""Who this process is, worked out when first asked: a preforked worker is not its parent."""

from __future__ import annotations

import os
import sys

from yaffle_health.model import Service


def service(
    *,
    service_id: str | None,
    description: str | None,
    host: str | None,
    hostname: str | None,
    release: str | None,
) -> Service:
    """Fill in what the service did not say: a random id, the program's name, the machine's name."""
    return Service(
        service_id=service_id or random_id(),
        description=description or program_name(),
        host=host or os.uname().nodename,
        hostname=hostname,
        release=release,
    )


def random_id() -> str:
    """A UUID of version 4 (RFC 9562 §5.4), without importing uuid."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def program_name() -> str:
    """The name a person would call this program by; `python -m package` gives the package."""
    # Not pathlib, which would double what this package costs to import.
    *above, name = (sys.argv[0] if sys.argv else "").split("/")
    if name == "__main__.py":
        name = above[-1] if above else ""
    return name if name not in {"", "-c", "-m", "-"} else "python"
