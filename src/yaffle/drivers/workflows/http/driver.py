"""HTTP workflows: a service of the operator's heals the node, and is asked how far it is.

POST to the endpoint's url, signed (`yaffle.integrations.signing`), `Idempotency-Key` = operation id,
body `{"operation_id", "workflow", "timeout_s", "node": {…}, "params"}`. answers.py has the meaning
of the answers. The rule for an outcome that is not known (silence, a reset, a gateway's 5xx):

- It is RUNNING with a detail, never FAILED: a failed step makes the ladder climb to a harsher one,
  and the service may be at work.
- Each poll then asks the `poll_url`, where there is one; if the service does not know the
  operation, or there is no `poll_url`, the same bytes are sent again with the same key. With
  `deduplicates = false` that is done only while nothing can have arrived.
- After the workflow's own timeout nothing is sent any more, and silence becomes FAILED.

The promise DEDUPLICATES is the service's as much as ours: it must run one Idempotency-Key once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import quote

import structlog

from yaffle.drivers.workflows.http.answers import Reply, after_post, after_question
from yaffle.drivers.workflows.http.records import ENDED, Record, Records, Stage
from yaffle.drivers.workflows.http.settings import PLACEHOLDER, Endpoint, HttpSettings
from yaffle.errors import InvalidSpec
from yaffle.integrations.driver_settings import Section
from yaffle.integrations.http import HttpSession, address_rules, one_line, to_json
from yaffle.integrations.signing import is_signable, sign
from yaffle.model.ids import OperationId
from yaffle.model.operations import Progress, ProgressState, Promise, Target
from yaffle.ports.context import DriverContext
from yaffle.ports.workflow import Workflow

log = structlog.get_logger(__name__)

BODY_MAX: Final = 262_144
_STATES: Final = {
    Stage.UNSENT: ProgressState.RUNNING,
    Stage.SENDING: ProgressState.RUNNING,
    Stage.ACCEPTED: ProgressState.RUNNING,
    Stage.DONE: ProgressState.DONE,
    Stage.FAILED: ProgressState.FAILED,
    Stage.NOT_BEGUN: ProgressState.FAILED,
}

_MUTE: Final = {
    Stage.UNSENT: "never sent",
    Stage.SENDING: "the answer was lost, and the service cannot be asked",
    Stage.ACCEPTED: "accepted, or answered by words that are not known, without a poll_url or a Location"
    " of its own to ask at",
}


class HttpWorkflow:
    """Off unless `drivers.HTTP.enabled`; what was sent is on disk before it is sent."""

    type: ClassVar[str] = "HTTP"
    promises: ClassVar[frozenset[Promise]] = frozenset({Promise.DEDUPLICATES})

    def __init__(self, context: DriverContext) -> None:
        self._settings = HttpSettings.read(Section("drivers.HTTP", context.settings))
        self._records = Records(root=context.state_dir / "workflows" / "http")
        self._clock = context.clock
        rules = address_rules(context)
        self._sessions = {
            name: HttpSession(rules, ca_file=endpoint.ca_file)
            for name, endpoint in self._settings.endpoints.items()
        }

    def in_place(self, name: str) -> bool:
        """Whether the operator vouches that `name` cannot create a second copy."""
        endpoint = self._settings.endpoints.get(name)
        return endpoint is not None and endpoint.in_place

    def validate(self, name: str, params: Mapping[str, object]) -> None:
        """Raise InvalidSpec naming every fault."""
        problems = [fault for fault in (self._fault(name), _unfit(params)) if fault]
        if problems:
            raise InvalidSpec(problems)

    async def submit(
        self,
        name: str,
        params: Mapping[str, object],
        target: Target,
        *,
        operation_id: OperationId,
        timeout_s: float,
        deadline_s: float,
    ) -> Progress:
        """Send it, or report on it if this operation id was submitted before."""
        if fault := self._fault(name):
            return Progress.not_begun(fault)
        fault = _unfit(params)
        if not fault and not is_signable(operation_id):
            fault = f"operation id {one_line(operation_id, 40)!r} cannot be signed"
        if fault:
            return Progress(state=ProgressState.FAILED, detail=fault)
        record = Record(
            operation_id=operation_id,
            name=name,
            body=_body(name, params, target, operation_id, timeout_s),
            until_us=self._clock.now_us() + int(timeout_s * 1e6),
        )
        try:
            await asyncio.to_thread(self._records.prune)
            created = await asyncio.to_thread(self._records.create, record)
        except OSError as error:
            why = f"not sent, because it could not be recorded: {error}"
            return Progress.not_begun(one_line(why))
        if not created:
            return await self.poll(name, target, operation_id=operation_id, deadline_s=deadline_s)
        return await self._post(record, deadline_s, repeat=False)

    async def poll(
        self, name: str, target: Target, *, operation_id: OperationId, deadline_s: float
    ) -> Progress:
        """Ask the service, or send again what may never have arrived (the rule is above)."""
        fault = self._fault(name)
        if fault:
            # Switched off while it ran: what has become of it is not known.
            return Progress(state=ProgressState.RUNNING, detail=f"cannot be asked: {fault}")
        try:
            record = await asyncio.to_thread(self._records.find, operation_id)
        except OSError as error:
            return Progress(state=ProgressState.RUNNING, detail=one_line(str(error)))
        if record is None and not is_signable(operation_id):
            return Progress(state=ProgressState.ABSENT, detail="such an id is never sent")
        if record is None:
            return await self._ask_as_stranger(name, operation_id, deadline_s)
        if record.name != name:
            detail = f"operation {operation_id} belongs to workflow {record.name!r}, not {name!r}"
            return Progress(state=ProgressState.FAILED, detail=detail)
        if record.stage in ENDED:
            return _progress(record.stage, record.detail)
        return await self._advance(record, deadline_s)

    async def _advance(self, record: Record, deadline_s: float) -> Progress:
        endpoint = self._settings.endpoints[record.name]
        in_time = self._clock.now_us() < record.until_us
        url = record.poll_url or _poll_url(endpoint, record.operation_id)
        half_s = deadline_s / 2
        if record.stage is not Stage.UNSENT and url:
            reply = await self._ask(record.name, record.operation_id, url, record.stage, half_s)
            if reply.stage is not None:
                return await self._note(record, reply)
            if record.stage is Stage.ACCEPTED or not endpoint.deduplicates:
                # It knew and has forgotten, or may yet begin: never start it a second time.
                return Progress(state=ProgressState.ABSENT, detail=reply.detail)
        repeat = record.stage is Stage.SENDING
        if in_time and (record.stage is Stage.UNSENT or (repeat and endpoint.deduplicates)):
            return await self._post(record, half_s, repeat=repeat)
        return await self._note(record, Reply(stage=record.stage, detail=_MUTE[record.stage]))

    async def _post(self, record: Record, deadline_s: float, *, repeat: bool) -> Progress:
        endpoint = self._settings.endpoints[record.name]
        if record.stage is Stage.UNSENT:
            record = replace(record, stage=Stage.SENDING)
            if not await self._keep(record):
                detail = "not sent yet, because it could not be recorded"
                return Progress(state=ProgressState.RUNNING, detail=detail)
        body = record.body.encode()
        answer = await self._sessions[record.name].request(
            "POST",
            endpoint.url,
            headers={
                **self._headers(endpoint, record.operation_id, body),
                "Content-Type": "application/json",
                "Idempotency-Key": record.operation_id,
            },
            body=body,
            deadline_s=min(deadline_s, endpoint.timeout_s),
        )
        hidden = _hidden(endpoint)
        reply = after_post(answer, endpoint.url, repeat=repeat, hidden=hidden)
        return await self._note(record, reply)

    async def _ask(
        self, name: str, operation_id: str, url: str, before: Stage, deadline_s: float
    ) -> Reply:
        endpoint = self._settings.endpoints[name]
        answer = await self._sessions[name].request(
            "GET",
            url,
            headers=self._headers(endpoint, operation_id, b""),
            deadline_s=min(deadline_s, endpoint.timeout_s),
        )
        return after_question(answer, before, hidden=_hidden(endpoint))

    async def _ask_as_stranger(
        self, name: str, operation_id: OperationId, deadline_s: float
    ) -> Progress:
        """Another engine, on another machine, may have sent it: only the service can tell."""
        url = _poll_url(self._settings.endpoints[name], operation_id)
        if not url:
            return Progress(state=ProgressState.ABSENT, detail="no record of it, and no poll_url")
        reply = await self._ask(name, operation_id, url, Stage.SENDING, deadline_s)
        if reply.stage is None:
            return Progress(state=ProgressState.ABSENT, detail=reply.detail)
        return _progress(reply.stage, reply.detail)

    async def _note(self, record: Record, reply: Reply) -> Progress:
        """Write down what is known now; past its deadline, what is not known has failed."""
        stage, detail = reply.stage or record.stage, reply.detail
        late = self._clock.now_us() >= record.until_us
        if late and _STATES[stage] is ProgressState.RUNNING:
            stage = Stage.FAILED
            detail = f"not ended within its timeout, outcome unknown; last: {reply.detail}"
        known = replace(
            record, stage=stage, detail=detail, poll_url=reply.location or record.poll_url
        )
        if known != record:
            # A lost write leaves the earlier, more careful stage behind.
            await self._keep(known)
        return _progress(stage, detail)

    async def _keep(self, record: Record) -> bool:
        try:
            await asyncio.to_thread(self._records.replace, record)
        except OSError as error:
            log.warning(
                "workflow record not written",
                operation_id=record.operation_id,
                stage=record.stage,
                error=str(error),
            )
            return False
        return True

    def _headers(self, endpoint: Endpoint, operation_id: str, body: bytes) -> dict[str, str]:
        now_s = self._clock.now_us() // 1_000_000
        signed = sign(endpoint.secret, message_id=operation_id, timestamp_s=now_s, body=body)
        return {**endpoint.headers, **signed}

    def _fault(self, name: str) -> str:
        if not self._settings.enabled:
            return (
                "HTTP workflows are off; an administrator turns them on with "
                "drivers.HTTP.enabled = true"
            )
        if name not in self._settings.endpoints:
            known = ", ".join(sorted(self._settings.endpoints)) or "none"
            return f"no endpoint is called {name!r} in drivers.HTTP.endpoints; known: {known}"
        return ""


def _progress(stage: Stage, detail: str) -> Progress:
    if stage is Stage.NOT_BEGUN:
        return Progress.not_begun(detail)
    return Progress(state=_STATES[stage], detail=detail)


def _hidden(endpoint: Endpoint) -> tuple[str, ...]:
    """Return what the service was given and must not be told again, whatever it says."""
    tokens = (word for value in endpoint.headers.values() for word in value.split()[1:])
    return (endpoint.secret.decode("utf-8", "replace"), *endpoint.headers.values(), *tokens)


def _poll_url(endpoint: Endpoint, operation_id: str) -> str:
    return endpoint.poll_url.replace(PLACEHOLDER, quote(operation_id, safe=""))


def _unfit(params: Mapping[str, object]) -> str:
    try:
        size = len(to_json(params))
    except (TypeError, ValueError) as error:
        return f"params have no JSON form: {one_line(str(error))}"
    return f"params are {size} bytes, more than {BODY_MAX}" if size > BODY_MAX else ""


def _body(
    name: str,
    params: Mapping[str, object],
    target: Target,
    operation_id: OperationId,
    timeout_s: float,
) -> str:
    return to_json(
        {
            "operation_id": operation_id,
            "workflow": name,
            "timeout_s": timeout_s,
            "node": {
                "id": target.node_id,
                "name": target.name,
                "physical_id": target.physical_id,
                "cluster_id": target.cluster_id,
                "cluster_name": target.cluster_name,
                "profile_type": target.profile_type,
                "attributes": target.attributes,
            },
            "params": params,
        }
    ).decode()


if TYPE_CHECKING:
    _conforms: type[Workflow] = HttpWorkflow
