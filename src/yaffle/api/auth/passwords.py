"""Passwords as scrypt hashes, in the notation that others use too: `$scrypt$ln=14,r=8,p=5$salt$key`.

The notation is the PHC string format; its base64 has no padding. No hash contains a colon, so that
one fits into a line of a users file.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import unicodedata
from dataclasses import dataclass
from typing import Final

PASSWORD_MIN: Final = 8
PASSWORD_MAX: Final = 1024
SALT_BYTES: Final = 16
KEY_BYTES: Final = 32
WORK_MIN: Final = 1 << 15
"""N·r of the cheapest hash that is accepted: about 15 ms of a CPU."""
MEMORY_MAX: Final = 64 * 1024 * 1024
PARALLEL_MAX: Final = 16
_FORM: Final = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{16,128})\$([A-Za-z0-9+/]{22,128})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one verification: 128·2^ln·r bytes of memory, p times over.

    The default is OWASP's for scrypt with 16 MiB: a quarter of a second of one CPU.
    """

    ln: int = 14
    r: int = 8
    p: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Hash:
    """A hashed password."""

    cost: Cost
    salt: bytes
    key: bytes

    def fits(self, password: str) -> bool:
        """Whether it is that password; takes the same time for every wrong one."""
        made = _derived(password, self.salt, self.cost, len(self.key))
        return hmac.compare_digest(made, self.key)

    def __str__(self) -> str:
        """Return the notation of the users file."""
        cost = self.cost
        head = f"$scrypt$ln={cost.ln},r={cost.r},p={cost.p}"
        return f"{head}${_text(self.salt)}${_text(self.key)}"


DEFAULT: Final = Cost()


def hashed(password: str, cost: Cost = DEFAULT) -> Hash:
    """Return the hash of a password with a fresh salt; takes the time that `cost` says."""
    salt = secrets.token_bytes(SALT_BYTES)
    return Hash(cost=cost, salt=salt, key=_derived(password, salt, cost, KEY_BYTES))


def decoy(cost: Cost) -> Hash:
    """Return a hash that no password fits, and that costs as much to try."""
    return Hash(cost=cost, salt=secrets.token_bytes(SALT_BYTES), key=secrets.token_bytes(KEY_BYTES))


def read(text: str) -> Hash:
    """Return the hash in its notation; raise ValueError for another, a weak or a ruinous one."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise ValueError(
            "is no hash; remove the line, `yaffle user add NAME --file FILE` writes one"
        )
    cost = Cost(ln=int(form[1]), r=int(form[2]), p=int(form[3]))
    work = (1 << cost.ln) * cost.r
    if work < WORK_MIN:
        raise ValueError(
            "is hashed too cheaply; remove the line, `yaffle user add NAME --file FILE` writes one"
        )
    if 128 * work > MEMORY_MAX or not 1 <= cost.p <= PARALLEL_MAX:
        raise ValueError(f"has a hash that costs more than {MEMORY_MAX >> 20} MiB to try")
    try:
        return Hash(cost=cost, salt=_bytes(form[4]), key=_bytes(form[5]))
    except binascii.Error:
        raise ValueError("has a hash that is cut off; make it anew") from None


def fault(password: str) -> str | None:
    """Return why a new password is not acceptable, or None."""
    if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
        return f"a password has {PASSWORD_MIN} to {PASSWORD_MAX} characters"
    if not password.isprintable():
        return "a password has only printable characters"
    return None


def _derived(password: str, salt: bytes, cost: Cost, length: int) -> bytes:
    # RFC 7617: two keyboards may spell the same letter differently.
    plain = unicodedata.normalize("NFC", password).encode()
    return hashlib.scrypt(
        plain,
        salt=salt,
        n=1 << cost.ln,
        r=cost.r,
        p=cost.p,
        dklen=length,
        # Its own accounting needs a little more than the formula says.
        maxmem=2 * MEMORY_MAX,
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
