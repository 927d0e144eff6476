"""Validates requests to recover or operate nodes against what their profiles offer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from yaffle.engine.action_inputs.recover_requests import FORCE
from yaffle.errors import BadRequest
from yaffle.model.authz import need_for_recovery
from yaffle.model.operations import inside
from yaffle.policy.operations import NO_RECOVERY

if TYPE_CHECKING:
    from yaffle.model.authz import Principal
    from yaffle.model.operations import OperationSpec
    from yaffle.ports import Profile

RECOVERIES: Final = ("REBOOT", "REBUILD", "RECREATE")
"""Senlin's; a profile may declare others."""
NODE_WORDS: Final = frozenset(
    {"operation", "operation_params", "check", "delete_timeout", "force_recreate", FORCE}
)
HINTS: Final = frozenset({"event", "state", "instance_id", "timestamp", "publisher"})
"""What a notification said; kept with the action (contracts/health-policy#what-yaffle-settles)."""
CLUSTER_WORDS: Final = frozenset({"operation", "operation_params", "check", "check_capacity"})
FENCE: Final = "fence_compute"


def recovery(
    who: Principal, driver: Profile, said: Mapping[str, object], words: frozenset[str]
) -> dict[str, object]:
    """Return the inputs of a recovery; raise BadRequest for what it cannot be, Forbidden for rights."""
    unknown = sorted(set(said) - words)
    if unknown:
        raise BadRequest(f"Action parameter {unknown} is not recognizable.")
    inputs = {key: value for key, value in said.items() if value is not None}
    need_for_recovery(who, inputs)
    if "operation" in inputs:
        inputs["operation"] = _recovery_named(driver, str(inputs["operation"]))
    params = inputs.get("operation_params")
    if isinstance(params, Mapping):
        inputs["operation_params"] = _recovery_params(driver, inputs.get("operation"), params)
    return inputs


def _recovery_named(driver: Profile, said: str) -> str:
    name = said.upper()
    declared = {n for n in driver.operations if n not in NO_RECOVERY}
    if name == "RECREATE" or name in declared:
        return name
    if name in RECOVERIES:
        offered = ", ".join(sorted({*declared, "RECREATE"}))
        raise BadRequest(
            f"The requested operation '{said}' is not supported by the profile type"
            f" '{driver.type}'.",
            hint=f"it offers {offered}",
        )
    raise BadRequest(
        f"Operation value '{said}' has to be one of the following: {', '.join(RECOVERIES)}."
    )


def _recovery_params(
    driver: Profile, operation: object, params: Mapping[str, object]
) -> dict[str, object]:
    spec = driver.operations.get(str(operation)) if operation else None
    rest = {k: v for k, v in params.items() if k != FENCE}
    checked = {} if spec is None else checked_params(str(operation), spec, rest)
    if spec is None and rest and operation:
        raise BadRequest(f"Action parameter {sorted(rest)} is not recognizable.")
    kept = {FENCE: params[FENCE]} if FENCE in params else {}
    return {**(checked or rest), **kept}


def operation(driver: Profile, wire_name: str, params: Mapping[str, object]) -> dict[str, object]:
    """Return the inputs of an operation that people ask for; raise BadRequest for what cannot be."""
    name = inside(driver.operations, wire_name)
    if name is None:
        raise BadRequest(
            f"The requested operation '{wire_name}' is not supported by the profile type"
            f" '{driver.type}'."
        )
    return {"operation": name, "params": checked_params(name, driver.operations[name], params)}


def checked_params(
    name: str, spec: OperationSpec, params: Mapping[str, object]
) -> dict[str, object]:
    """Return the params in the profile's own spelling; raise BadRequest naming what is wrong."""
    unknown = sorted(set(params) - set(spec.params))
    if unknown:
        raise BadRequest(f"Action parameter {unknown} is not recognizable.")
    missing = sorted(k for k, p in spec.params.items() if p.required and k not in params)
    if missing:
        raise BadRequest(f"Required parameter {missing} of operation '{name.lower()}' is missing.")
    return {key: _value(name, key, spec, value) for key, value in params.items()}


def _value(name: str, key: str, spec: OperationSpec, value: object) -> object:
    param = spec.params[key]
    if param.choices:
        found = next((c for c in param.choices if str(c).upper() == str(value).upper()), None)
        if found is None:
            known = ", ".join(map(str, param.choices))
            raise BadRequest(
                f"'{value}' must be one of the allowed values: {known}.",
                hint=f"that is for the parameter '{key}'",
            )
        return found
    if not isinstance(value, param.type) or (param.type is not bool and isinstance(value, bool)):
        raise BadRequest(
            f"Parameter '{key}' of operation '{name.lower()}' has to be of type"
            f" {param.type.__name__}."
        )
    return value
