"""Reads a driver's section of the configuration: unknown keys are errors, secrets stay unseen.

What is wrong is noted and reading goes on, with a stand-in for the value; `finish` raises all of it at
once, so that nothing is ever made of a stand-in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from yaffle.config import private
from yaffle.config.faults import meant, quoted
from yaffle.errors import ConfigError
from yaffle.integrations.signing import MIN_SECRET_BYTES

SECRET_MAX: Final = 65_536
_OUR_HEADERS: Final = frozenset(
    {"connection", "content-length", "content-type", "host", "idempotency-key", "transfer-encoding"}
)

T = TypeVar("T")


class Section:
    """A table of settings; every key that is read is known, and `finish` refuses the rest.

    `faults`: those of the section that it stands in, whose `finish` tells what is wrong with both.
    """

    def __init__(
        self,
        where: str,
        values: Mapping[str, object],
        *,
        faults: dict[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._where = where
        self._values = values
        self._known: set[str] = set()
        self._inner = faults is not None
        self._faults = {} if faults is None else faults

    @property
    def where(self) -> str:
        """The section's own name, for messages."""
        return self._where

    def place(self, key: str) -> str:
        """Return the setting's full name, for messages."""
        return f"{self._where}.{key}"

    def wrong(self, key: str, fault: str) -> None:
        """Note what is wrong with a setting; the first that is said of one is what is told."""
        self._note(key, (f"{self.place(key)} {fault}",))

    def right(self, *keys: str) -> bool:
        """Whether nothing is wrong with these settings by themselves, so that they can be compared."""
        return not any(self.place(key) in self._faults for key in keys)

    def attempt(self, key: str, read: Callable[[], T], instead: T) -> T:
        """Return what `read` makes of a setting; note its ConfigError, and return `instead`."""
        try:
            return read()
        except ConfigError as error:
            self._note(key, error.problems)
            return instead

    def _note(self, key: str, problems: tuple[str, ...]) -> None:
        self._faults.setdefault(self.place(key), problems)

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text; required where there is no default."""
        value = self._get(key, default)
        if not isinstance(value, str) or (default is None and not value):
            self.wrong(key, "must be a non-empty text")
            return default or ""
        return value

    def number(self, key: str, default: float, *, low: float, high: float) -> float:
        """Return a number between `low` and `high`, both included."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong(key, "must be a number")
            return default
        if not low <= value <= high:
            self.wrong(key, f"is {value:g}; it must be between {low:g} and {high:g}")
        return float(value)

    def flag(self, key: str, *, default: bool) -> bool:
        """Return true or false; a text such as "false" is an error, never true."""
        value = self._get(key, default)
        if not isinstance(value, bool):
            self.wrong(key, "must be true or false")
            return default
        return value

    def path(self, key: str) -> Path | None:
        """Return an absolute path, or None where the setting is absent."""
        value = self._get(key, None)
        if value is None:
            return None
        if not isinstance(value, str | Path) or not Path(value).is_absolute():
            self.wrong(key, "must be an absolute path")
            return None
        return Path(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a required, non-empty list of texts; one text alone is an error."""
        value = self._get(key, None)
        if not isinstance(value, list | tuple) or not value:
            self.wrong(key, "must be a non-empty list of texts")
            return ()
        if not all(isinstance(item, str) and "\0" not in item for item in value):
            self.wrong(key, "must be a list of texts without NUL characters")
            return ()
        return tuple(value)

    def patterns(self, key: str) -> tuple[str, ...]:
        """Return names in which `*` and `?` stand for others; without the setting, all."""
        return ("*",) if self._get(key, None) is None else self.texts(key)

    def text_table(self, key: str) -> dict[str, str]:
        """Return a table of texts, empty where absent. Values are not shown in messages."""
        table = self.table(key)
        texts = {name: value for name, value in table.items() if isinstance(value, str)}
        if len(texts) != len(table) or any("\0" in value for value in texts.values()):
            self.wrong(key, "must map names to texts without NUL characters")
        return texts

    def table(self, key: str) -> Mapping[str, object]:
        """Return a table, empty where absent."""
        value = self._get(key, None)
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            self.wrong(key, "must be a table")
            return {}
        return value

    def raw(self, key: str) -> object:
        """Return what stands there, for a setting that has several shapes; None where absent."""
        return self._get(key, None)

    def sections(self, key: str) -> dict[str, Section]:
        """Return a table of tables as sections of their own, by name."""
        found: dict[str, Section] = {}
        for name, value in self.table(key).items():
            place = f"{key}.{quoted(name)}"
            if not isinstance(value, Mapping):
                self.wrong(place, "must be a table")
                continue
            found[name] = Section(self.place(place), value, faults=self._faults)
        return found

    def headers(self, key: str = "headers") -> dict[str, str]:
        """Return extra HTTP headers; line breaks in them are refused."""
        table = self.text_table(key)
        for name, value in table.items():
            if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
                self.wrong(f"{key}.{name}", "is not a header name")
            if name.lower() in _OUR_HEADERS or name.lower().startswith("x-yaffle-"):
                self.wrong(f"{key}.{name}", "is a header that Yaffle sets itself")
            if not value.isascii() or not value.isprintable():
                self.wrong(f"{key}.{name}", "must be printable ASCII")
        return table

    def secret(self, key: str = "secret", *, required: bool = True) -> bytes:
        """Return the secret from exactly one of `secret_file`, `secret_env` and `secret`.

        Empty where none of them is there and none is required.
        The file is read once, at start; a trailing line break is not part of the secret.
        """
        file, env = self.path(f"{key}_file"), self._get(f"{key}_env", None)
        inline = self._get(key, None)
        if not self.right(f"{key}_file"):
            return b""
        if not required and file is env is inline is None:
            return b""
        if sum(source is not None for source in (file, env, inline)) != 1:
            self.wrong(key, f"needs exactly one of {key}_file, {key}_env and {key}")
            return b""
        if file is not None:
            place = self.place(f"{key}_file")
            value = self.attempt(f"{key}_file", lambda: read_secret(file, place), b"")
        elif env is not None:
            value = os.environ.get(str(env), "").encode()
        else:
            value = inline.encode() if isinstance(inline, str) else b""
        if len(value) < MIN_SECRET_BYTES and self.right(f"{key}_file"):
            self.wrong(key, f"must have at least {MIN_SECRET_BYTES} bytes")
        return value

    def finish(self) -> None:
        """Raise ConfigError naming all that is wrong, and every key that nobody has asked for."""
        for key in sorted(str(key) for key in self._values if key not in self._known):
            known = ", ".join(sorted(self._known)) or "none"
            near = meant(key, self._known, otherwise=f"known: {known}")
            self._note(key, (f"{self.place(quoted(key))}: there is no such setting{near}",))
        if not self._inner:
            self.check()

    def check(self) -> None:
        """Raise ConfigError naming all that is wrong of what has been read."""
        if self._faults:
            raise ConfigError([problem for told in self._faults.values() for problem in told])

    def _get(self, key: str, default: object) -> object:
        self._known.add(key)
        return self._values.get(key, default)


def read_secret(path: Path, place: str) -> bytes:
    """Return a secret file's content without its trailing line break; ConfigError names `place`."""
    _, value = private.read_secret(path, place, most=SECRET_MAX)
    return value.removesuffix(b"\n").removesuffix(b"\r")
