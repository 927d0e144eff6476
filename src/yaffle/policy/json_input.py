"""An already parsed document (JSON over HTTP), under the bounds of text: depth, count, plain types."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from yaffle.policy.faults import Fault, Path, shown
from yaffle.policy.reader import Unreadable
from yaffle.policy.settings import DocumentSettings


@dataclass(slots=True, kw_only=True)
class PlainCopier:
    """Copies a document, so that nobody can change it afterwards, and notes what JSON cannot hold."""

    settings: DocumentSettings
    faults: list[Fault] = field(default_factory=list)
    count: int = 0

    def copy(self, value: object, path: Path = ()) -> object:
        """Return a copy made of dict, list, str, int, float, bool and None; raise Unreadable."""
        self.count += 1
        if self.count > self.settings.max_values:
            raise Unreadable(f"more than {self.settings.max_values} values")
        if len(path) > self.settings.max_depth:
            raise Unreadable(f"nested deeper than {self.settings.max_depth} levels")
        if isinstance(value, Mapping):
            return {
                str(key): self.copy(item, (*path, str(key)))
                for key, item in value.items()
                if self._is_key(key, path)
            }
        if isinstance(value, (list, tuple)):
            return [self.copy(item, (*path, place)) for place, item in enumerate(value)]
        return self._scalar(value, path)

    def _scalar(self, value: object, path: Path) -> object:
        if isinstance(value, str):
            if len(value) > self.settings.max_bytes:
                raise Unreadable(f"a text longer than {self.settings.max_bytes} characters")
            if not _is_unicode(value):
                self.faults.append(Fault(path=path, text="this is not Unicode text"))
                return ""
            return value
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        if value is None or isinstance(value, (bool, int, float)):
            return value
        self.faults.append(Fault(path=path, text=f"{type(value).__name__} is no JSON value"))
        return ""

    def _is_key(self, key: object, path: Path) -> bool:
        if isinstance(key, str) and _is_unicode(key):
            return True
        self.faults.append(Fault(path=path, text=f"the key {shown(key)} is not text"))
        return False


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
