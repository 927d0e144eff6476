"""What may be taken away from a Yaffle: services of the cloud, stopped or hanging, and clear answers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from lab.openstack import Lab
from tests.openstack.bad_days.gate import Gate, Refusal, Seen

SERVICES: Final = {
    "keystone": "keystone",
    "nova-api": "nova-api",
    "bus": "rabbitmq",
    "database": "postgresql",
}
"""Names for people, and the lab's."""
HANGING: Final = "hanging-"
OUTAGES: Final = (*SERVICES, *(HANGING + name for name in SERVICES), "errors", "conflicts")


def _errors(dice: random.Random) -> Callable[[Seen], Refusal | None]:
    """Answer everything with a 5xx or a 429, as an overloaded gateway does."""

    def told(_: Seen) -> Refusal:
        status = dice.choice((500, 502, 503, 504, 429))
        return status, {"computeFault": {"code": status, "message": "a storm"}}

    return told


def _conflicts(seen: Seen) -> Refusal | None:
    """Answer every act with Nova's own words for a server that is busy; questions are answered truly."""
    if not seen.writes:
        return None
    why = f"Cannot '{seen.act}' instance {seen.server} while it is in task_state storming"
    return 409, {"conflictingRequest": {"code": 409, "message": why}}


STORMS: Final[Mapping[str, Callable[[], Callable[[Seen], Refusal | None]]]] = {
    "errors": lambda: _errors(random.Random(1)),
    "conflicts": lambda: _conflicts,
}


@contextmanager
def without(lab: Lab, outage: str, gates: Sequence[Gate]) -> Iterator[None]:
    """Take it away, and give it back at the end; gates that hang are opened once it is away."""
    with ExitStack() as stack:
        if outage in STORMS:
            for gate in gates:
                gate.weather = STORMS[outage]()
                stack.callback(setattr, gate, "weather", lambda _: None)
        elif outage.startswith(HANGING):
            stack.enter_context(lab.frozen(SERVICES[outage.removeprefix(HANGING)]))
        else:
            stack.enter_context(lab.stopped(SERVICES[outage]))
        for gate in gates:
            gate.open()
        yield
