"""Secrets as the database may hold them: sealed with a key that lies elsewhere, and bound to their place.

The file has one key a line, the newest first: that one seals, the others only open what was sealed
before. It is read anew each time, so that a rotation needs no restart. A key that is missing is told,
with its id; nothing is ever kept unsealed instead, or thrown away because it cannot be opened.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import json
import os
import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from yaffle.config.private import read_secret
from yaffle.errors import ConfigError, DependencyError

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

SETTING: Final = "credentials.keys_file"
FILE_MAX: Final = 65_536
KEY_BYTES: Final = 32
_NO_KEY: Final = "a line is no key (32 bytes, url-safe base64)"
_ID: Final = 8
"""Characters of a key's id: enough to tell a few keys apart, and of no use to find one."""


class SealBroken(DependencyError):
    """Raised where a sealed value cannot be opened: the message names the key, or says it was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A secret that only a holder of the key can read."""

    key_id: str
    blob: str


class KeyFile:
    """The keys of a file that nobody else may read."""

    def __init__(self, path: Path, *, setting: str = SETTING) -> None:
        self._path = path
        self._setting = setting

    def check(self) -> None:
        """Raise ConfigError unless there is at least one key, and nobody else may use it."""
        self._keys()

    @property
    def newest(self) -> str:
        """The id of the key that seals."""
        return self._keys()[0][0]

    @property
    def ids(self) -> list[str]:
        """The ids of all keys, the newest first."""
        return [ident for ident, _ in self._keys()]

    def seal(self, content: Mapping[str, str], place: Sequence[str]) -> Sealed:
        """Seal texts; they are opened again for the same `place` only. Raises as `check` does."""
        key_id, key = self._keys()[0]
        text = json.dumps({"place": list(place), "content": dict(content)})
        return Sealed(key_id=key_id, blob=key.encrypt(text.encode()).decode("ascii"))

    def open(self, sealed: Sealed, place: Sequence[str]) -> dict[str, str]:
        """Return what was sealed for that place; raise SealBroken where that cannot be."""
        from cryptography.fernet import InvalidToken  # noqa: PLC0415 - who has no keys lacks it

        try:
            keys = dict(self._keys())
        except ConfigError as error:
            raise SealBroken(str(error)) from None
        key = keys.get(sealed.key_id)
        if key is None:
            raise SealBroken(
                f"it was sealed with key {sealed.key_id}, which is not in {self._path}",
                hint=f"put that key back, as a line below the others of {self._setting}",
            )
        try:
            found = json.loads(key.decrypt(sealed.blob.encode()))
        except (InvalidToken, ValueError):
            # Without its cause: a trace must not show what was tried.
            raise SealBroken(f"key {sealed.key_id} does not open it: it was changed") from None
        if found["place"] != list(place):
            raise SealBroken(
                "it was sealed for something else: somebody has moved it in the database"
            )
        return {str(name): str(value) for name, value in found["content"].items()}

    def words(self) -> list[str]:
        """Return the keys as they are written, the newest first; raise as `check` does."""
        found = _words(self._text())
        if not found:
            raise ConfigError(
                f"{self._setting} = {self._path}: it has no key;"
                f" `yaffle credential new-key --file {shlex.quote(str(self._path))}` makes one"
            )
        return found

    def _keys(self) -> list[tuple[str, Fernet]]:
        """Return the keys with their ids, the newest first."""
        return [_key(word, self._path, self._setting) for word in self.words()]

    def _text(self) -> str:
        try:
            return read_secret(self._path, self._setting, most=FILE_MAX)[1].decode("ascii")
        except UnicodeDecodeError:
            raise ConfigError(f"{self._setting} = {self._path}: it is no text of keys") from None


class IdKeys:
    """Hides ids that are passwords from whoever has the database alone; a file of keys as `KeyFile`'s.

    Each id is XORed with HMAC-SHA512 of its place, which no two ids share, and the caller knows by the
    place whether what comes out is the id: so this needs nothing but the standard library. Several
    keys may be in the file, the newest first. Without `setting` the file is ours, made when needed.
    """

    def __init__(self, path: Path, *, setting: str | None = None) -> None:
        self._path = path
        self._ours = setting is None
        self._file = KeyFile(path, setting=setting or "receivers.keys_file")

    def check(self) -> None:
        """Raise ConfigError for a file that is there, or has to be, and cannot be used."""
        if not self._ours or self._path.exists():
            self._keys()

    def hide(self, ident: str, place: str) -> str:
        """Return what may be stored of an id; raises ConfigError where there is no key to do it with."""
        if self._ours and not self._path.exists():
            _new_file(self._path)
        return _veiled(ident.encode(), self._keys()[0], place).hex()

    def show(self, hidden: str, place: str, fits: Callable[[str], bool]) -> str | None:
        """Return the id that was hidden and `fits`; None where the key for it is not here."""
        try:
            found = (_veiled(bytes.fromhex(hidden), key, place) for key in self._keys())
            texts = (raw.decode("utf-8", "replace") for raw in found)
            return next((text for text in texts if fits(text)), None)
        except (ConfigError, ValueError):
            return None

    def _keys(self) -> list[bytes]:
        try:
            found = [base64.b64decode(w, altchars=b"-_", validate=True) for w in self._file.words()]
        except binascii.Error:
            found = [b""]
        if any(len(key) != KEY_BYTES for key in found):
            raise ConfigError(f"receivers.keys_file = {self._path}: {_NO_KEY}")
        return found


def _veiled(text: bytes, key: bytes, place: str) -> bytes:
    pad = hmac.digest(key, b"yaffle id\0" + place.encode(), "sha512")
    return bytes(one ^ other for one, other in zip(text, pad, strict=False))


def _new_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(KEY_BYTES)).decode("ascii")


def _written(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())


def _new_file(path: Path) -> None:
    """Make a file with one key, unless another process has made it meanwhile."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        _written(beside, f"{_new_key()}\n")
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(beside)
        beside.unlink()
    except OSError as error:
        raise ConfigError(f"receivers.keys_file = {path}: {error.strerror}") from None


def add_key(path: Path) -> str:
    """Put a new key before the others of a file, which is made if need be; return the key's id.

    The old file is replaced as a whole: whoever reads meanwhile sees all keys or all but the new one.
    """
    file = KeyFile(path)
    old = ""
    if path.exists():
        old = file._text()  # noqa: SLF001 - as it is read, so that only a private file is written anew
        # One without a key, which is refused everywhere else, is given its first.
        if _words(old):
            file.check()
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.unlink(missing_ok=True)
        _written(beside, f"{_new_key()}\n{old}")
        beside.replace(path)
    except OSError as error:
        raise ConfigError(f"{SETTING} = {path}: {error.strerror}") from None
    return file.newest


def _words(text: str) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def _key(word: str, path: Path, setting: str) -> tuple[str, Fernet]:
    fernet = _fernet()
    try:
        key = fernet(word)
    except ValueError:
        # Without the word: half a key is a secret, too.
        raise ConfigError(f"{setting} = {path}: {_NO_KEY}") from None
    return hashlib.sha256(b"yaffle key\0" + word.encode()).hexdigest()[:_ID], key


def _fernet() -> type[Fernet]:
    try:
        from cryptography.fernet import Fernet  # noqa: PLC0415 - who has no keys need not have it
    except ImportError as error:
        raise ConfigError(
            f"{SETTING} needs {error.name}: pip install 'yaffle[openstack]'"
        ) from None
    return Fernet
