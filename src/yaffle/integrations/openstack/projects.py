"""Whose session a call is made with: one for all, or for each project what that project handed to us.

Invariant: what is asked about a node of a project is asked with a credential of that project, or not
at all. There is no way from one project's session to another's node: what is remembered of a cloud
(lists of servers, members of stacks) is kept apart, too.

    no credential                  CredentialMissing: unknown, and nothing is begun
    Keystone will not have it      CredentialRefused: the same; written down, so that the next one of
                                   the project is taken, or its user asked for another
    it cannot be looked up         what is in use goes on being used; else the reason
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from yaffle.errors import ConfigError, StoreUnavailable, YaffleError
from yaffle.integrations.openstack.cloud import Cloud
from yaffle.integrations.openstack.credentials import CloudsYaml, ForProject
from yaffle.integrations.openstack.faults import CredentialMissing, CredentialRefused
from yaffle.integrations.secret_box import SETTING
from yaffle.model.credentials import CredentialKind
from yaffle.model.operations import ActsIn

if TYPE_CHECKING:
    from yaffle.integrations.openstack.client import Client
    from yaffle.integrations.openstack.credentials import Choice
    from yaffle.model.credentials import Credential
    from yaffle.ports.clock import Clock
    from yaffle.ports.credentials import Credentials

SESSIONS: Final = 256
"""Projects whose sessions are kept; the one that was used longest ago is forgotten first."""
THREADS: Final = 4
QUEUE: Final = 128
FRESH_S: Final = 10.0
"""So old may an answer be to whether a project's credential is still the same."""
AGAIN_US: Final = 60_000_000
"""Between two attempts of a credential that was refused: Keystone may lock out who insists."""
NOTED_S: Final = 3600.0
AT_ONCE: Final = 8
_REFUSALS: Final = frozenset({"Unauthorized", "Forbidden"})
_GONE: Final = "NotFound"
_HIDDEN: Final = "***"


class Owned(Protocol):
    """An object that belongs to a project."""

    @property
    def project(self) -> str:
        """Its name, as our rows have it."""
        ...


PartT = TypeVar("PartT")
T = TypeVar("T")
OwnedT = TypeVar("OwnedT", bound=Owned)


@dataclass(slots=True)
class _Line(Generic[PartT]):
    cloud: Cloud
    part: PartT
    credential: Credential | None
    looked_s: float
    noted_s: float | None = None
    """When it was last written down that it works."""


class Projects(Generic[PartT]):
    """Calls of a driver, each with the session that is right for it.

    `make` returns what the driver remembers of the cloud as one session shows it.
    """

    def __init__(
        self,
        choice: Choice,
        clock: Clock,
        make: Callable[[], PartT],
        *,
        credentials: Credentials | None = None,
        cloud: Cloud | None = None,
        sessions: int = SESSIONS,
    ) -> None:
        """Raise ConfigError where each project's credential is wanted, and nobody keeps them.

        `cloud`: in place of the one that the choice names. `sessions`: kept at most.
        """
        self._choice = choice
        self._clock = clock
        self._make = make
        self._credentials = credentials
        self._sessions = sessions
        self._lines: OrderedDict[str, _Line[PartT]] = OrderedDict()
        self._shared: _Line[PartT] | None = None
        if cloud is not None or not choice.per_project:
            made = cloud or Cloud(choice.at, clock)
            self._shared = _Line(cloud=made, part=make(), credential=None, looked_s=0.0)
        elif credentials is None:
            raise ConfigError(
                f'`credentials = "projects"` needs {SETTING}: the keys that they are sealed with'
            )

    @property
    def per_project(self) -> bool:
        """Whether each project has a session of its own."""
        return self._shared is None

    @property
    def where(self) -> dict[str, object]:
        """Return the words that say in which cloud a thing is; empty where it has no name."""
        if self._shared is None:
            return {"cloud": self._choice.at.name}
        held = self._shared.cloud.credentials
        return {"cloud": held.name} if isinstance(held, CloudsYaml) else {}

    def pool(self, target: Owned) -> str:
        """Name the session that a target is asked about with."""
        return "" if self._shared is not None else target.project

    async def acts_in(self, deadline_s: float) -> ActsIn:
        """Say in which project the one session is, or that each project has its own."""
        if (shared := self._shared) is None:
            return ActsIn(per_project=True)
        try:
            project = await shared.cloud.call(lambda client: client.project_id, deadline_s)
        except (TimeoutError, YaffleError) as error:
            return ActsIn(detail=reason(error, deadline_s))
        return ActsIn(project=project, detail="" if project else "the credential is of no project")

    async def call(self, project: str, work: Callable[[Client, PartT], T], deadline_s: float) -> T:
        """Do `work` with the project's session; raises what `Cloud.call` and `work` raise.

        And CredentialMissing, CredentialRefused, or why the credential cannot be looked up.
        """
        if (shared := self._shared) is not None:
            return await shared.cloud.call(lambda c: work(c, shared.part), deadline_s)
        until_s = self._clock.monotonic_s() + deadline_s
        async with asyncio.timeout(deadline_s):
            line = await self._line(project)
        left_s = max(0.0, until_s - self._clock.monotonic_s())
        clients: list[Client] = []

        def watched(client: Client) -> T:
            # By the client and not by what is raised: drivers turn that into values.
            clients.append(client)
            return work(client, line.part)

        try:
            done = await line.cloud.call(watched, left_s)
        except (TimeoutError, YaffleError):
            await self._judged(project, line, clients)
            raise
        await self._judged(project, line, clients)
        if clients and clients[0].let_in:
            await self._works(line)
        return done

    async def each(
        self,
        targets: Sequence[OwnedT],
        ask: Callable[[Client, PartT, Sequence[OwnedT]], Sequence[T]],
        unclear: Callable[[OwnedT, str], T],
        deadline_s: float,
    ) -> list[T]:
        """Ask about targets, those of each project by themselves; return the answers in order.

        A project that cannot be asked is unclear, and no other one with it.
        """
        found: dict[int, T] = {}
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(project: str, places: Sequence[int]) -> None:
            mine = [targets[place] for place in places]
            try:
                async with asyncio.timeout(deadline_s), turns:
                    answers = await self.call(project, lambda c, p: ask(c, p, mine), deadline_s)
            except (TimeoutError, YaffleError) as error:
                why = reason(error, deadline_s)
                answers = [unclear(target, why) for target in mine]
            found.update(zip(places, answers, strict=True))

        async with asyncio.TaskGroup() as tasks:
            for project, places in self._groups(targets).items():
                tasks.create_task(one(project, places))
        return [found[place] for place in range(len(targets))]

    def _groups(self, targets: Sequence[OwnedT]) -> dict[str, list[int]]:
        groups: dict[str, list[int]] = {}
        for place, target in enumerate(targets):
            groups.setdefault(self.pool(target), []).append(place)
        return groups

    # --- whose session --------------------------------------------------------------------------

    async def _line(self, project: str) -> _Line[PartT]:
        """Return the project's session, with the credential that is right now."""
        line = self._lines.get(project)
        if line is None or self._clock.monotonic_s() - line.looked_s >= FRESH_S:
            line = await self._looked_up(project)
        self._lines.move_to_end(project)
        return line

    async def _looked_up(self, project: str) -> _Line[PartT]:
        assert self._credentials is not None  # noqa: S101 - or there is one session for all
        at = self._choice.at
        try:
            found = await self._credentials.of(at.name, project) if project else ()
        except StoreUnavailable:
            # Whether it was taken away meanwhile cannot be known; to stop looking helps nobody.
            if (line := self._lines.get(project)) is not None:
                return line
            raise
        except YaffleError:
            self._forget(project)
            raise
        chosen = found[0] if found else None
        if chosen is None or self._too_soon(chosen):
            self._forget(project)
            raise missing(at.name, project) if chosen is None else refused(chosen)
        now_s, line = self._clock.monotonic_s(), self._lines.get(project)
        if line is not None and line.credential is not None and _same(line.credential, chosen):
            line.looked_s = now_s
            return line
        self._forget(project)
        cloud = Cloud(
            ForProject(at=at, credential=chosen), self._clock, threads=THREADS, queue=QUEUE
        )
        line = _Line(cloud=cloud, part=self._make(), credential=chosen, looked_s=now_s)
        self._lines[project] = line
        while len(self._lines) > self._sessions:
            self._forget(next(iter(self._lines)))
        return line

    def _too_soon(self, credential: Credential) -> bool:
        since_us = credential.refused_us
        return since_us is not None and self._clock.now_us() - since_us < AGAIN_US

    def _forget(self, project: str) -> None:
        line = self._lines.pop(project, None)
        if line is not None:
            line.cloud.close()

    # --- what has become of it ------------------------------------------------------------------

    async def _judged(self, project: str, line: _Line[PartT], clients: Sequence[Client]) -> None:
        """Raise CredentialRefused where it was the credential that the cloud did not accept."""
        error = next((client.not_let_in for client in clients), None)
        credential = line.credential
        if error is None or credential is None or self._credentials is None:
            return
        why = refusal(error, credential)
        if not why:
            return
        if self._lines.get(project) is line:
            self._forget(project)
        await self._credentials.refused(credential, why)
        raise refused(credential, why) from None

    async def _works(self, line: _Line[PartT]) -> None:
        now_s = self._clock.monotonic_s()
        if line.noted_s is not None and now_s - line.noted_s < NOTED_S:
            return
        line.noted_s = now_s
        if line.credential is not None and self._credentials is not None:
            await self._credentials.used(line.credential)


def _same(one: Credential, other: Credential) -> bool:
    return (one.id, one.reference, one.secret) == (other.id, other.reference, other.secret)


def refusal(error: Exception, credential: Credential) -> str:
    """Return Keystone's words where it was the credential that it refused; empty for all else.

    `error`: what a request for a token has raised. An application credential that was deleted is
    "not found", with its id: a proxy that finds nothing does not name it. A trust is unauthorized.
    """
    names = {kind.__name__ for kind in type(error).__mro__}
    said = " ".join(str(error).split())
    if not (names & _REFUSALS or (_GONE in names and credential.reference in said)):
        return ""
    if credential.secret:
        # It is stored, and told to whoever asks; what Keystone repeats is not ours to trust in.
        said = said.replace(credential.secret, _HIDDEN)
    return said[:300] or type(error).__name__


def refused(credential: Credential, why: str = "") -> CredentialRefused:
    """Return the error that says whose credential was refused, and what its user can do."""
    mend = (
        "the next request of that user renews it"
        if credential.kind is CredentialKind.TRUST
        else "hand over another one: `yaffle credential add --id ID`"
    )
    return CredentialRefused(
        f"Keystone refuses the {credential.called} of project {credential.project} in cloud"
        f" {credential.cloud}: {why or credential.refused_why or 'no reason told'}; {mend}"
    )


def missing(cloud: str, project: str) -> CredentialMissing:
    """Return the error that says for which project there is no credential, and how to give one."""
    if not project:
        return CredentialMissing(f"cloud {cloud} is asked for one project, and this is for none")
    return CredentialMissing(
        f"project {project} has handed over no credential for cloud {cloud}:"
        " `yaffle credential add --id ID`"
    )


def reason(error: TimeoutError | YaffleError, deadline_s: float) -> str:
    """Return why there was no answer, for a person."""
    if isinstance(error, TimeoutError):
        return f"no answer of the cloud within {deadline_s:g} s"
    return str(error)
