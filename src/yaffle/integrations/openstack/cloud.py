"""A cloud as drivers have it: one session, few threads, a short queue, and a deadline on everything."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from yaffle.integrations.openstack.client import Client, Places
from yaffle.integrations.openstack.credentials import (
    ApplicationCredential,
    CloudsYaml,
    ForProject,
    plugin_for,
    plugin_of,
)
from yaffle.integrations.openstack.faults import CloudBusy, CloudUnavailable
from yaffle.integrations.openstack.request_policy import Passes, everything

if TYPE_CHECKING:
    from keystoneauth1.session import Session

    from yaffle.integrations.openstack.credentials import Credentials
    from yaffle.integrations.openstack.deadline_transport import Deadline
    from yaffle.model.credentials import Credential
    from yaffle.ports.clock import Clock

T = TypeVar("T")

THREADS: Final = 8
QUEUE: Final = 256
_SHARE: Final = 0.9
"""Of the deadline is the thread's, so that its answer still finds the caller waiting."""


class Cloud:
    """Calls of one set of credentials. A thread ends by its own deadline, whatever the cloud does."""

    def __init__(
        self,
        credentials: Credentials,
        clock: Clock,
        *,
        threads: int = THREADS,
        queue: int = QUEUE,
        passes: Passes = everything,
    ) -> None:
        self.credentials = credentials
        self._passes = passes
        self._clock = clock
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="yaffle-openstack")
        self._places = threads + queue
        self._taken = 0
        self._counting = threading.Lock()
        self._connects = threads
        self._lock = threading.Lock()
        self._line: tuple[Session, Deadline, Places] | None = None

    async def call(self, work: Callable[[Client], T], deadline_s: float) -> T:
        """Run `work` in a thread; raise TimeoutError after `deadline_s`, CloudBusy at once when full.

        What `work` raises comes through. After a TimeoutError the thread may still be at it, until
        a little later its requests end too: whether they arrived is unknown.
        """
        with self._counting:
            if self._taken >= self._places:
                raise CloudBusy(f"{self._taken} calls to the cloud wait already")
            self._taken += 1
        until_s = self._clock.monotonic_s() + deadline_s * _SHARE
        future = self._threads.submit(self._within, work, until_s)
        # When the thread is free again, not when the caller has lost patience.
        future.add_done_callback(self._over)
        async with asyncio.timeout(deadline_s):
            return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Take no more calls, let go of connections; calls under way end by their own deadlines."""
        self._threads.shutdown(wait=False)
        line = self._line
        if line is not None:
            # keystoneauth has no word for it; what is in use is closed when it is given back.
            line[0].session.close()

    def _over(self, _: Future[T]) -> None:
        with self._counting:
            self._taken -= 1

    def _within(self, work: Callable[[Client], T], until_s: float) -> T:
        if self._clock.monotonic_s() >= until_s:
            raise CloudBusy("the deadline passed in our own queue")
        session, deadline, where = self._connected(until_s)
        from yaffle.integrations.openstack.deadline_transport import within  # noqa: PLC0415 - loaded by now

        with within(deadline, until_s):
            return work(Client(session, deadline, self._clock.monotonic_s, where))

    def _connected(self, until_s: float) -> tuple[Session, Deadline, Places]:
        """Return the session, made by whoever comes first; nothing is asked of the cloud here."""
        if not self._lock.acquire(timeout=max(0.0, until_s - self._clock.monotonic_s())):
            raise CloudBusy("the session was not ready in time")
        try:
            if self._line is None:
                self._line = self._connect()
            return self._line
        finally:
            self._lock.release()

    def _connect(self) -> tuple[Session, Deadline, Places]:
        # Here and not above: it takes a second, and who has no cloud need not have it installed.
        try:
            from yaffle.integrations.openstack.deadline_transport import ClampedAdapter, Deadline  # noqa: PLC0415

            session, where = _session_of(self.credentials)
        except ImportError as error:
            raise CloudUnavailable(
                f"{error.name} is not installed: install yaffle[openstack]", sent=False
            ) from error
        deadline = Deadline()
        for scheme in ("http://", "https://"):
            session.mount(
                scheme,
                ClampedAdapter(
                    deadline,
                    self._clock.monotonic_s,
                    connections=self._connects,
                    passes=self._passes,
                ),
            )
        return session, deadline, where


def _session_of(credentials: Credentials) -> tuple[Session, Places]:
    """Return a session, and where in the catalog its endpoints are to be looked for."""
    match credentials:
        case CloudsYaml():
            return _from_file(credentials)
        case ForProject():
            return _from_file(credentials.at, credentials.credential)
        case ApplicationCredential():
            from keystoneauth1.session import Session  # noqa: PLC0415

            where = {"interface": credentials.interface}
            if credentials.region:
                where["region_name"] = credentials.region
            verify = str(credentials.ca_file) if credentials.ca_file else True
            return Session(auth=plugin_of(credentials), verify=verify), Places(filter=where)


def _from_file(
    credentials: CloudsYaml, instead: Credential | None = None
) -> tuple[Session, Places]:
    """Return a session at that cloud, `instead` with what a project has handed to us."""
    from openstack.config import OpenStackConfig  # noqa: PLC0415
    from openstack.exceptions import SDKException  # noqa: PLC0415

    files = [str(credentials.file)] if credentials.file else None
    try:
        # Without the environment: an operator's own OS_… must not lead the service elsewhere.
        with warnings.catch_warnings():
            # It warns of a monitoring backend that nobody has asked it for.
            warnings.simplefilter("ignore")
            config = OpenStackConfig(config_files=files, load_envvars=False, app_name="yaffle")
            region = config.get_one(cloud=credentials.name)
    except (SDKException, OSError) as error:
        raise CloudUnavailable(f"cloud {credentials.name!r}: {error}", sent=False) from error
    interface = region.get_interface() or "public"
    where = {"interface": interface if isinstance(interface, str) else interface[0]}
    if region.region_name:
        where["region_name"] = region.region_name
    session = region.get_session()
    if instead is not None:
        session.auth = plugin_for(instead, region.config)
    # `compute_endpoint_override: …` in the file; without one, this is None.
    return session, Places(filter=where, override=region.get_endpoint)
