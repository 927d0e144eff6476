"""Rules that span several keys, asked of the raw document, so that one fault does not hide another.

Each rule looks only at values of the right kind; the others are the schema's business. A rule that
needs every number to be right belongs to `lint`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from yaffle.model.policy import ModeType, RungKind
from yaffle.policy import operations, schema, templates
from yaffle.policy.faults import Fault, Path, listed, shown_text
from yaffle.policy.versions import needs

DETECTION: Final[Path] = ("properties", "detection")
MODES: Final[Path] = (*DETECTION, "detection_modes")
RECOVERY: Final[Path] = ("properties", "recovery")
ACTIONS: Final[Path] = (*RECOVERY, "actions")
_LB: Final = frozenset({"pool", "balancer"})
_OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    ModeType.NODE_STATUS_POLL_URL: frozenset(schema.OptionsSpec.model_fields) - _LB,
    ModeType.LB_STATUS_POLLING: _LB,
}
"""Which mode has which options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The capabilities of this installation."""

    version: str
    modes: frozenset[str]
    kinds: frozenset[str]
    operations: operations.Operations | None

    @property
    def newest(self) -> bool:
        """Whether the document speaks the version that is our own."""
        return self.version == "1.3"


def faults(document: Mapping[str, object], offer: Offer) -> Iterator[Fault]:
    """Yield every fault."""
    yield from schema.GRAMMAR.too_new(document, offer.version)
    yield from _mode_faults(document, offer)
    yield from _action_faults(document, offer)


def warnings(document: Mapping[str, object], offer: Offer) -> Iterator[Fault]:
    """Yield what is accepted but has no effect."""
    for place, mode in _entries(document, MODES):
        options = mode.get("options")
        if options and mode.get("type") not in list(_OPTIONS):
            text = f"no effect: only {' and '.join(_OPTIONS)} have options"
            yield Fault(path=(*MODES, place, "options"), text=text, at_key=True)
    fencing = _at(document, (*RECOVERY, "fencing"))
    if isinstance(fencing, list):
        for place, word in enumerate(fencing):
            if word in fencing[:place]:
                yield Fault(path=(*RECOVERY, "fencing", place), text="stands twice")


# --- Detection modes ---


def _mode_faults(document: Mapping[str, object], offer: Offer) -> Iterator[Fault]:
    detection = _at(document, DETECTION)
    if isinstance(detection, Mapping) and not detection.get("detection_modes", None):
        text = f"empty or absent: nothing would be watched; name one of {listed(ModeType)}"
        yield Fault(path=MODES, text=text)
    entries = list(_entries(document, MODES))
    for place, mode in entries:
        yield from _one_mode(place, mode, offer)
    yield from _duplicates(entries)
    if not offer.newest and len(entries) > 1:
        for place, mode in entries:
            if mode.get("type") == ModeType.LIFECYCLE_EVENTS:
                text = f"LIFECYCLE_EVENTS beside other modes {needs('1.3', offer.version)}"
                yield Fault(path=(*MODES, place, "type"), text=text)


def _one_mode(place: int, mode: Mapping[str, object], offer: Offer) -> Iterator[Fault]:
    kind, options = mode.get("type"), mode.get("options")
    if isinstance(kind, str) and kind in list(ModeType) and kind not in offer.modes:
        here = listed(sorted(offer.modes)) or "none"
        yield Fault(path=(*MODES, place, "type"), text=f"not available here: {kind}; here: {here}")
    if offer.newest and isinstance(options, Mapping) and isinstance(kind, str):
        yield from _others_options(place, kind, options)
    if kind != ModeType.NODE_STATUS_POLL_URL:
        return
    if options is None or (isinstance(options, Mapping) and not options.get("poll_url", None)):
        path: Path = (*MODES, place, "options", "poll_url")
        text = 'required for NODE_STATUS_POLL_URL, for example "http://{node_ip}:8080/health"'
        yield Fault(path=path, text=text)


def _others_options(place: int, kind: str, options: Mapping[str, object]) -> Iterator[Fault]:
    """Yield options of another mode; what Senlin lets stand without effect is only warned of."""
    for key in options:
        owner = next((mode for mode, keys in _OPTIONS.items() if key in keys), None)
        if owner is None or owner == kind or ModeType.LB_STATUS_POLLING not in (owner, kind):
            continue
        path: Path = (*MODES, place, "options", key)
        yield Fault(path=path, text=f"only for {owner}", at_key=True)


def _duplicates(entries: list[tuple[int, Mapping[str, object]]]) -> Iterator[Fault]:
    seen: list[tuple[int, object, object]] = []
    for place, mode in entries:
        kind, options = mode.get("type"), mode.get("options") or {}
        if kind not in list(_OPTIONS):
            options = {}
        for earlier, other_kind, other_options in seen:
            if (kind, options) == (other_kind, other_options) and kind is not None:
                yield duplicate_mode(place, earlier)
                break
        seen.append((place, kind, options))


def duplicate_mode(place: int, earlier: int) -> Fault:
    """Return the fault of a mode that asks what an earlier one asks."""
    text = f"the same as detection_modes.{earlier}; remove one"
    return Fault(path=(*MODES, place), text=text)


# --- Actions ---


def _action_faults(document: Mapping[str, object], offer: Offer) -> Iterator[Fault]:
    for place, action in _entries(document, ACTIONS):
        path: Path = (*ACTIONS, place)
        params = action.get("params")
        for where, text in templates.check(params, (*path, "params")):
            yield Fault(path=where, text=text)
        kind = action.get("type", RungKind.BUILTIN)
        if kind == RungKind.BUILTIN:
            yield from _builtin_faults(path, action, offer)
        elif isinstance(kind, str) and kind in list(RungKind) and kind not in offer.kinds:
            text = f"not available here: {kind}; an administrator has to enable it"
            yield Fault(path=(*path, "type"), text=text)


def _builtin_faults(path: Path, action: Mapping[str, object], offer: Offer) -> Iterator[Fault]:
    name, params = action.get("name"), action.get("params")
    if offer.newest and "in_place" in action:
        text = "only for workflows; of its own operations Yaffle knows whether they are in place"
        yield Fault(path=(*path, "in_place"), text=text, at_key=True)
    if not isinstance(name, str):
        return
    if text_or_none := operations.name_fault(name, offer.operations):
        yield Fault(path=(*path, "name"), text=text_or_none)
    given = params if isinstance(params, Mapping) else {}
    for where, text in operations.param_faults(name, given, offer.operations):
        yield Fault(path=(*path, "params", *where), text=text)


def _entries(
    document: Mapping[str, object], path: Path
) -> Iterator[tuple[int, Mapping[str, object]]]:
    found = _at(document, path)
    if isinstance(found, list):
        for place, entry in enumerate(found):
            if isinstance(entry, Mapping):
                yield place, entry


def _at(value: object, path: Path) -> object:
    for part in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(str(part))
    return value


def version_faults(document: Mapping[str, object], known: tuple[str, ...]) -> Iterator[Fault]:
    """Yield the fault of a missing or unknown version."""
    if "version" not in document:
        yield Fault(path=("version",), text=f"required; known versions: {listed(known)}")
    elif version_of(document) not in known:
        given = shown_text(version_of(document)) or "that"
        text = f"unknown version {given}; known versions: {listed(known)}"
        yield Fault(path=("version",), text=text)


def version_of(document: Mapping[str, object]) -> str:
    """Return the version as text (YAML reads 1.1 as a number), or empty for anything else."""
    version = document.get("version")
    if isinstance(version, bool):
        return ""
    if isinstance(version, int):
        return f"{version}.0" if abs(version) < 10**6 else ""
    return str(version).strip() if isinstance(version, (str, float)) else ""
