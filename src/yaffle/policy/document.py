"""From a policy document to a `HealthPolicy`: every fault at once, each with its place.

The order: read, type and version, older spellings, then schema and rules side by side; hazards and
arithmetic last, because they need every number to be right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from yaffle.errors import InvalidSpec
from yaffle.model.operations import OperationSpec
from yaffle.model.policy import ActionKind, HealthPolicy, ModeType
from yaffle.policy import compat, rules, shape_faults
from yaffle.policy.arithmetic import Arithmetic, arithmetic
from yaffle.policy.build import as_document, build
from yaffle.policy.faults import Fault, Path, Places, near_miss, shown
from yaffle.policy.hazards import HAZARDS, is_refused
from yaffle.policy.plain import PlainCopier
from yaffle.policy.reader import Reader, Unreadable
from yaffle.policy.settings import DEFAULT_SETTINGS, POLICY_TYPE, VERSIONS, DocumentSettings

ALL_MODES: Final = frozenset(mode.value for mode in ModeType)
ALL_KINDS: Final = frozenset(kind.value for kind in ActionKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedPolicy:
    """A document that was accepted."""

    policy: HealthPolicy
    name: str | None
    description: str | None
    warnings: tuple[str, ...]
    """One line each, with its place; never a reason to refuse."""
    arithmetic: Arithmetic
    document: dict[str, object]
    """The document with defaults filled in, in Senlin's property names; parses to the same policy."""


def parse(
    text: str,
    *,
    source: str = "policy.yaml",
    profile_operations: Mapping[str, OperationSpec] | None = None,
    available_modes: frozenset[str] = ALL_MODES,
    available_kinds: frozenset[str] = ALL_KINDS,
    settings: DocumentSettings = DEFAULT_SETTINGS,
) -> ParsedPolicy:
    """Return the policy in a YAML (or JSON) text; raise InvalidSpec naming every fault."""
    places = Places(source=source)
    reader = Reader(settings=settings, places=places, text=text)
    try:
        document = reader.read()
    except Unreadable as error:
        raise InvalidSpec(places.describe_all([error.fault])) from None
    return _Parsing(
        places=places,
        settings=settings,
        operations=profile_operations,
        modes=available_modes,
        kinds=available_kinds,
    ).run(document, reader.faults)


def parse_document(
    doc: object,
    *,
    profile_operations: Mapping[str, OperationSpec] | None = None,
    available_modes: frozenset[str] = ALL_MODES,
    available_kinds: frozenset[str] = ALL_KINDS,
    settings: DocumentSettings = DEFAULT_SETTINGS,
) -> ParsedPolicy:
    """Return the policy in an already parsed JSON document; its faults have no line and column."""
    places = Places(source=None)
    copier = PlainCopier(settings=settings)
    try:
        document = copier.copy(doc)
    except Unreadable as error:
        raise InvalidSpec(places.describe_all([error.fault])) from None
    return _Parsing(
        places=places,
        settings=settings,
        operations=profile_operations,
        modes=available_modes,
        kinds=available_kinds,
    ).run(document, copier.faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parsing:
    """One run over one document, which is a private copy and is rewritten in place."""

    places: Places
    settings: DocumentSettings
    operations: Mapping[str, OperationSpec] | None
    modes: frozenset[str]
    kinds: frozenset[str]

    def run(self, document: object, read_faults: list[Fault]) -> ParsedPolicy:
        """Return the policy; raise InvalidSpec."""
        if not isinstance(document, dict):
            text = f"has to be a mapping with type, version and properties, not {shown(document)}"
            raise self._refusal([*read_faults, Fault(path=(), text=text)])
        head = [*_type_faults(document), *rules.version_faults(document, VERSIONS)]
        if head:
            # Another type or version has other keys: to judge those would be guessing.
            raise self._refusal([*read_faults, *head])
        return self._parse(document, rules.version_of(document), read_faults)

    def _parse(
        self, document: dict[str, object], version: str, read_faults: list[Fault]
    ) -> ParsedPolicy:
        offer = rules.Offer(
            version=version, modes=self.modes, kinds=self.kinds, operations=self.operations
        )
        old_faults, warnings = compat.rewrite(document, version, self.places)
        spec, shape = shape_faults.validate(document, self.settings, newest=offer.newest)
        # A stand-in took the place of what could not be read: blame it once.
        unread = {fault.path for fault in read_faults if fault.mark is None}
        judged = (*old_faults, *shape, *rules.faults(document, offer))
        faults = [*read_faults, *(fault for fault in judged if fault.path not in unread)]
        if faults or spec is None:
            raise self._refusal(faults)
        policy = build(spec, version, self.operations)
        found, cautions = _hazards(policy)
        if refused := [*_equal_modes(policy), *found]:
            raise self._refusal(refused)
        warnings += [*rules.warnings(document, offer), *cautions]
        if offer.newest:
            warnings += _quoted(document, spec.model_dump(mode="python", exclude_unset=True), ())
        return ParsedPolicy(
            policy=policy,
            name=spec.name,
            description=spec.description,
            warnings=self.places.describe_all(warnings),
            arithmetic=arithmetic(policy),
            document=as_document(policy, {"name": spec.name, "description": spec.description}),
        )

    def _refusal(self, faults: list[Fault]) -> InvalidSpec:
        return InvalidSpec(self.places.describe_all(faults))


def _type_faults(document: Mapping[str, object]) -> Iterator[Fault]:
    if "type" not in document:
        yield Fault(path=("type",), text=f"required; write type: {POLICY_TYPE}")
        return
    given = document["type"]
    if given != POLICY_TYPE:
        hint = near_miss(given, [POLICY_TYPE]) if isinstance(given, str) else ""
        text = f"unknown policy type {shown(given)}{hint}; known: {POLICY_TYPE}"
        yield Fault(path=("type",), text=text)


def _hazards(policy: HealthPolicy) -> tuple[list[Fault], list[Fault]]:
    """Return what refuses the document and what is worth a warning."""
    refusals: list[Fault] = []
    warnings: list[Fault] = []
    for hazard in HAZARDS:
        into = refusals if is_refused(hazard, policy.version) else warnings
        for path, text in hazard.find(policy):
            into.append(Fault(path=path, text=f"{text} [{hazard.code}]"))
    return refusals, warnings


def _equal_modes(policy: HealthPolicy) -> Iterator[Fault]:
    """Yield modes that are equal once defaults are filled in; `rules` saw those written alike."""
    seen: dict[object, int] = {}
    for place, mode in enumerate(policy.detection.modes):
        question = (mode.type, mode.url)
        if question in seen:
            yield rules.duplicate_mode(place, seen[question])
        seen.setdefault(question, place)


def _quoted(raw: object, typed: object, path: Path) -> Iterator[Fault]:
    """Yield values that were taken for what they are not: "30" for 30, 200 for "200"."""
    if isinstance(raw, dict) and isinstance(typed, dict):
        for key, value in raw.items():
            if key in typed:
                yield from _quoted(value, typed[key], (*path, key))
    elif isinstance(raw, list) and isinstance(typed, list):
        for place, (value, item) in enumerate(zip(raw, typed, strict=False)):
            yield from _quoted(value, item, (*path, place))
    elif isinstance(raw, str) and isinstance(typed, (bool, int, float)):
        yield Fault(path=path, text=f"{shown(raw)} is text; taken as {shown(typed)}: unquote it")
    elif isinstance(raw, (int, float)) and isinstance(typed, str):
        yield Fault(path=path, text=f"{shown(raw)} is a number; taken as text: quote it")
