"""Documents that people write, as YAML or JSON: read with a bound, and turned into what JSON can hold."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from yaffle.errors import ConfigError, InvalidSpec


def name_of(file: str) -> str:
    return "stdin" if file == "-" else file


def read_document(file: str) -> tuple[str, str]:
    """Return the name and the text of a document.

    Raises ConfigError when it cannot be read, and InvalidSpec when it is larger than is read.
    """
    from yaffle.policy import DEFAULT_SETTINGS

    most = DEFAULT_SETTINGS.max_bytes
    try:
        if file == "-":
            found, size = sys.stdin.buffer.read(most + 1), 0
        else:
            with Path(file).open("rb") as opened:
                found, size = opened.read(most + 1), os.fstat(opened.fileno()).st_size
        if len(found) > most:
            # A pipe has no size until it has been read to its end.
            told = f"{size} bytes" if size > most else f"more than {most} bytes"
            raise InvalidSpec(f"{name_of(file)}: {told}; at most {most} are read")
        return name_of(file), found.decode()
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: byte {error.start} is not UTF-8; save it as UTF-8") from None


def plain(source: str, text: str) -> object:
    """Return the document's value; raise InvalidSpec naming every fault with its line and column."""
    from yaffle.policy import DEFAULT_SETTINGS
    from yaffle.policy.faults import Places
    from yaffle.policy.reader import Reader, Unreadable

    places = Places(source=source)
    reader = Reader(settings=DEFAULT_SETTINGS, places=places, text=text)
    try:
        found = reader.read()
    except Unreadable as error:
        raise InvalidSpec(places.describe_all([error.fault])) from None
    if reader.faults:
        raise InvalidSpec(places.describe_all(reader.faults))
    return found


def as_yaml(value: object) -> str:
    """Return a value as YAML, its keys in their order."""
    import yaml

    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True)).rstrip()
