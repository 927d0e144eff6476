"""Older spellings that the seed documents use, rewritten before the schema sees them.

`detection: {type, options: {interval}}` (1.0, 1.1) and the misspelt
`poll_url_conn_error_as_unhealty` / `_unheathy` (all versions): contracts/health-policy#documents. The
rewrites keep note of where the author wrote things, so that faults point there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from yaffle.policy.faults import Fault, Path, Places

RIGHT: Final = "poll_url_conn_error_as_unhealthy"
MISSPELT: Final = ("poll_url_conn_error_as_unhealty", "poll_url_conn_error_as_unheathy")
_DETECTION: Final[Path] = ("properties", "detection")
_MODE: Final[Path] = (*_DETECTION, "detection_modes", 0)


def rewrite(
    document: dict[str, object], version: str, places: Places
) -> tuple[list[Fault], list[Fault]]:
    """Rewrite `document` in place; return faults and warnings."""
    detection = _mapping(_mapping(document.get("properties")).get("detection"))
    faults: list[Fault] = []
    if version in ("1.0", "1.1") and "type" in detection:
        faults += _lift_single_mode(detection, places)
    warnings: list[Fault] = []
    for path, options in _options(detection):
        for misspelt in MISSPELT:
            if misspelt in options:
                _respell(options, misspelt, path, places, faults, warnings)
    return faults, warnings


def _lift_single_mode(detection: dict[str, object], places: Places) -> list[Fault]:
    if "detection_modes" in detection:
        text = "give either detection.type or detection.detection_modes, not both"
        detection.pop("type")
        detection.pop("options", None)
        return [Fault(path=(*_DETECTION, "type"), text=text, at_key=True)]
    mode: dict[str, object] = {"type": detection.pop("type")}
    places.origins[(*_MODE, "type")] = (*_DETECTION, "type")
    places.origins[_MODE] = _DETECTION
    faults = []
    if "options" in detection:
        options = detection.pop("options")
        faults = _lift_interval(detection, options, places)
        mode["options"] = options
        places.origins[(*_MODE, "options")] = (*_DETECTION, "options")
    detection["detection_modes"] = [mode]
    return faults


def _lift_interval(detection: dict[str, object], options: object, places: Places) -> list[Fault]:
    if not isinstance(options, dict) or "interval" not in options:
        return []
    interval = options.pop("interval")
    written: Path = (*_DETECTION, "options", "interval")
    if "interval" in detection:
        text = "give either detection.interval or detection.options.interval, not both"
        return [Fault(path=written, text=text, at_key=True)]
    detection["interval"] = interval
    places.origins[(*_DETECTION, "interval")] = written
    return []


def _respell(
    options: dict[str, object],
    misspelt: str,
    path: Path,
    places: Places,
    faults: list[Fault],
    warnings: list[Fault],
) -> None:
    value = options.pop(misspelt)
    # The place as the author wrote it: the options themselves may have been moved.
    written = places.written((*path, misspelt))
    places.origins[written] = written
    if RIGHT in options:
        text = f"the same option as {RIGHT}; keep the one spelt right"
        faults.append(Fault(path=written, text=text, at_key=True))
        return
    options[RIGHT] = value
    places.origins[(*path, RIGHT)] = written
    text = f"misspelt; taken as {RIGHT}"
    warnings.append(Fault(path=written, text=text, at_key=True))


def _options(detection: dict[str, object]) -> Iterator[tuple[Path, dict[str, object]]]:
    modes = detection.get("detection_modes")
    if not isinstance(modes, list):
        return
    for place, mode in enumerate(modes):
        options = _mapping(mode).get("options")
        if isinstance(options, dict):
            yield (*_DETECTION, "detection_modes", place, "options"), options


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
