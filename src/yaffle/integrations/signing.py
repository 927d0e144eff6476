"""Signs what Yaffle sends and checks it for receivers: forged, altered and replayed messages fail.

The signature is `v1=<hex HMAC-SHA256(secret, id "." timestamp "." body)>`. Ids hold no dot and the
timestamp holds digits only, so that no two messages share the same signed text.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Final

ID_HEADER: Final = "X-Yaffle-Id"
TIMESTAMP_HEADER: Final = "X-Yaffle-Timestamp"
SIGNATURE_HEADER: Final = "X-Yaffle-Signature"
TOLERANCE_S: Final = 300
MIN_SECRET_BYTES: Final = 16

_ID: Final = re.compile(r"[A-Za-z0-9_:-]{1,200}", re.ASCII)
_TIMESTAMP: Final = re.compile(r"[0-9]{1,12}", re.ASCII)
_V1: Final = re.compile(r"v1=([0-9a-f]{64})", re.ASCII)
_SIGNATURES_MAX: Final = 8


class BadSignature(ValueError):
    """The message is not proved to come from a holder of the secret; do not act on it."""


def is_signable(message_id: str) -> bool:
    """Whether `message_id` may be signed: 1-200 of letters, digits, `_`, `:` and `-`."""
    return _ID.fullmatch(message_id) is not None


def sign(secret: bytes, *, message_id: str, timestamp_s: int, body: bytes) -> dict[str, str]:
    """Return the three headers to send with `body`; ValueError for an id that cannot be signed."""
    if not is_signable(message_id):
        raise ValueError(f"{message_id!r} cannot be signed: letters, digits, '_', ':' and '-' only")
    digest = _digest(secret, message_id, str(timestamp_s), body)
    return {
        ID_HEADER: message_id,
        TIMESTAMP_HEADER: str(timestamp_s),
        SIGNATURE_HEADER: f"v1={digest}",
    }


def verify(
    secrets: bytes | Sequence[bytes],
    headers: Mapping[str, str],
    body: bytes,
    *,
    now_s: float,
    tolerance_s: float = TOLERANCE_S,
) -> str:
    """Return the id of a genuine, recent message; raise BadSignature for anything else.

    For receivers. `body` is the raw bytes as received, before any JSON parsing. Header names are
    compared without regard to case. Rotation: give the new and the old secret until every sender
    has the new one. Within the tolerance a copy of a genuine message still verifies: remember the
    returned ids for `2 * tolerance_s` and answer 2xx to a known one without acting again (the same
    id also comes back when our first attempt was not answered).
    """
    keys = (secrets,) if isinstance(secrets, bytes) else tuple(secrets)
    if not keys or not all(keys):
        raise ValueError("verify needs at least one secret, and none may be empty")
    fields = {name.lower(): value for name, value in headers.items()}
    message_id = fields.get(ID_HEADER.lower(), "")
    timestamp = fields.get(TIMESTAMP_HEADER.lower(), "")
    if not is_signable(message_id):
        raise BadSignature(f"{ID_HEADER} is missing or malformed")
    if _TIMESTAMP.fullmatch(timestamp) is None:
        raise BadSignature(f"{TIMESTAMP_HEADER} is missing or malformed")
    offered = _offered(fields.get(SIGNATURE_HEADER.lower(), ""))
    if not _any_match(keys, message_id, timestamp, body, offered):
        raise BadSignature(f"{SIGNATURE_HEADER} does not match")
    # After the signature: a stranger learns nothing about our clock.
    if abs(now_s - int(timestamp)) > tolerance_s:
        raise BadSignature(f"{TIMESTAMP_HEADER} is more than {tolerance_s:g} s away from now")
    return message_id


def _digest(secret: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    text = f"{message_id}.{timestamp}.".encode("ascii") + body
    return hmac.new(secret, text, hashlib.sha256).hexdigest()


def _offered(header: str) -> tuple[str, ...]:
    """Return the v1 signatures in the header; versions unknown to us are passed over."""
    parts = [part.strip() for part in header.split(",", _SIGNATURES_MAX)][:_SIGNATURES_MAX]
    return tuple(found.group(1) for part in parts if (found := _V1.fullmatch(part)))


def _any_match(
    keys: Sequence[bytes], message_id: str, timestamp: str, body: bytes, offered: Sequence[str]
) -> bool:
    """Compare in constant time, and without stopping at the first match."""
    matched = False
    for key in keys:
        expected = _digest(key, message_id, timestamp, body)
        for digest in offered:
            matched |= hmac.compare_digest(expected, digest)
    return matched
