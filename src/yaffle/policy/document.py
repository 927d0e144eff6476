"""Parsing of policy documents: every fault at once, each with its place.

The order: read, type and version, then what the type asks for. A health policy: older spellings,
schema and rules side by side; hazards and arithmetic last, because they need every number to be
right. The others: shape, then rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from yaffle.errors import InvalidSpec
from yaffle.model.operations import OperationSpec
from yaffle.model.policy import HealthPolicy, ModeType, RungKind
from yaffle.policy import cluster_build, cluster_rules, legacy, rules, schema, shape_faults
from yaffle.policy import cluster_schema as sizes
from yaffle.policy.arithmetic import Arithmetic, arithmetic
from yaffle.policy.build import as_document, build
from yaffle.policy.cluster_build import ClusterPolicy
from yaffle.policy.faults import (
    Fault,
    Path,
    Places,
    UnknownPolicyType,
    listed,
    near_miss,
    shown,
    shown_text,
)
from yaffle.policy.json_input import PlainCopier
from yaffle.policy.lint import HAZARDS, is_refused
from yaffle.policy.operations import caveats
from yaffle.policy.reader import Reader, Unreadable
from yaffle.policy.settings import (
    BATCH_TYPE,
    DEFAULT_SETTINGS,
    DELETION_TYPE,
    KNOWN,
    POLICY_TYPE,
    SCALING_TYPE,
    DocumentSettings,
)
from yaffle.policy.versions import Grammar

ALL_MODES: Final = frozenset(mode.value for mode in ModeType)
ALL_KINDS: Final = frozenset(kind.value for kind in RungKind)
Policy: TypeAlias = HealthPolicy | ClusterPolicy

GRAMMARS: Final[Mapping[str, Grammar]] = {
    BATCH_TYPE: sizes.BATCH,
    DELETION_TYPE: sizes.DELETION,
    POLICY_TYPE: schema.GRAMMAR,
    SCALING_TYPE: sizes.SCALING,
}
"""What each type's documents may hold."""
_SHAPES: Final[Mapping[str, type[sizes.ClusterDocument]]] = {
    BATCH_TYPE: sizes.BatchDocument,
    DELETION_TYPE: sizes.DeletionDocument,
    SCALING_TYPE: sizes.ScalingDocument,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedPolicy:
    """A document that was accepted."""

    type: str
    """Without the version, e.g. `senlin.policy.health`."""
    policy: Policy
    name: str | None
    description: str | None
    warnings: tuple[str, ...]
    """One line each, with its place; never a reason to refuse."""
    arithmetic: Arithmetic | None
    """Of health policies only."""
    document: dict[str, object]
    """The document with defaults filled in, in Senlin's property names; parses to the same policy."""

    @property
    def type_name(self) -> str:
        """Type and version as the API spells them, e.g. `senlin.policy.health-1.3`."""
        return f"{self.type}-{self.policy.version}"

    @property
    def health(self) -> HealthPolicy:
        """The policy, where only a health policy will do; raise InvalidSpec for another."""
        if not isinstance(self.policy, HealthPolicy):
            raise InvalidSpec(f"type: {self.type} is no health policy; {POLICY_TYPE} is wanted")
        return self.policy


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
    """The parsing of one document, which is a private copy and is rewritten in place."""

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
        kind, version = document.get("type"), rules.version_of(document)
        if head := [*_type_faults(document), *_version_faults(document)]:
            # Another type or version has other keys: to judge those would be guessing.
            raise self._unknown(kind, version, read_faults, head)
        if kind == POLICY_TYPE:
            return self._health(document, version, read_faults)
        return self._sizes(document, str(kind), version, read_faults)

    def _unknown(
        self, kind: object, version: str, read_faults: list[Fault], head: list[Fault]
    ) -> InvalidSpec | UnknownPolicyType:
        # Only what could name a type somewhere else is "not found"; the rest is a wrong document.
        if read_faults or not isinstance(kind, str) or not version:
            return self._refusal([*read_faults, *head])
        problems = self.places.describe_all(head)
        return UnknownPolicyType(shown_text(kind), shown_text(version), problems)

    def _sizes(
        self, document: dict[str, object], kind: str, version: str, read_faults: list[Fault]
    ) -> ParsedPolicy:
        """Return a deletion, scaling or batch policy."""
        grammar = GRAMMARS[kind]
        spec, shape = shape_faults.validate(
            document, _SHAPES[kind], grammar, version, self.settings
        )
        faults = [*grammar.too_new(document, version), *shape]
        if spec is not None:
            faults += cluster_rules.faults(spec)
        if (faults := _with_read(read_faults, faults)) or spec is None:
            raise self._refusal(faults)
        policy = cluster_build.build(spec, version)
        title = {"name": spec.name, "description": spec.description}
        return ParsedPolicy(
            type=kind,
            policy=policy,
            name=spec.name,
            description=spec.description,
            warnings=self.places.describe_all(cluster_rules.warnings(spec)),
            arithmetic=None,
            document=cluster_build.as_document(policy, title),
        )

    def _health(
        self, document: dict[str, object], version: str, read_faults: list[Fault]
    ) -> ParsedPolicy:
        offer = rules.Offer(
            version=version, modes=self.modes, kinds=self.kinds, operations=self.operations
        )
        old_faults, warnings = legacy.rewrite(document, version, self.places)
        spec, shape = shape_faults.validate(
            document, schema.DocumentSpec, schema.GRAMMAR, version, self.settings
        )
        judged = [*old_faults, *shape, *rules.faults(document, offer)]
        if (faults := _with_read(read_faults, judged)) or spec is None:
            raise self._refusal(faults)
        policy = build(spec, version, self.operations)
        found, cautions = _hazards(policy)
        if refused := [*_equal_modes(policy), *found]:
            raise self._refusal(refused)
        warnings += [*rules.warnings(document, offer), *cautions]
        limits = caveats(policy, self.operations or {})
        warnings += [Fault(path=path, text=text) for path, text in limits]
        if offer.newest:
            warnings += _quoted(document, spec.model_dump(mode="python", exclude_unset=True), ())
        return ParsedPolicy(
            type=POLICY_TYPE,
            policy=policy,
            name=spec.name,
            description=spec.description,
            warnings=self.places.describe_all(warnings),
            arithmetic=arithmetic(policy),
            document=as_document(policy, {"name": spec.name, "description": spec.description}),
        )

    def _refusal(self, faults: list[Fault]) -> InvalidSpec:
        return InvalidSpec(self.places.describe_all(faults))


def _with_read(read_faults: list[Fault], judged: list[Fault]) -> list[Fault]:
    """Return all faults; a stand-in that took the place of what could not be read is blamed once."""
    unread = {fault.path for fault in read_faults if fault.mark is None}
    return [*read_faults, *(fault for fault in judged if fault.path not in unread)]


def _type_faults(document: Mapping[str, object]) -> Iterator[Fault]:
    if "type" not in document:
        yield Fault(path=("type",), text=f"required; one of {listed(KNOWN)}")
        return
    given = document["type"]
    if not isinstance(given, str) or given not in KNOWN:
        hint = near_miss(given, KNOWN, prefix="senlin.policy.") if isinstance(given, str) else ""
        text = f"unknown policy type {shown(given)}{hint}; known: {listed(KNOWN)}"
        yield Fault(path=("type",), text=text)


def _version_faults(document: Mapping[str, object]) -> Iterator[Fault]:
    given = document.get("type")
    known = KNOWN.get(given) if isinstance(given, str) else None
    # Of a type that nobody knows, say at least what no type has.
    every = tuple(sorted({version for versions in KNOWN.values() for version in versions}))
    yield from rules.version_faults(document, known or every)


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
        question = (mode.type, mode.url, tuple(sorted(mode.options.items())))
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
