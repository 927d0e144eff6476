"""What all routes of the instance-HA API have in common: prefix, microversions, shape of refusals.

{"conflictingRequest": {"code": 409, "message": "…"}}
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from yaffle.api.clustering import errors
from yaffle.api.clustering.errors import NoSuchPlace, page
from yaffle.api.clustering.microversion import Microversion, Spoken
from yaffle.api.clustering.table import Face
from yaffle.api.errors.fault import fault
from yaffle.api.http.reply import Reply
from yaffle.api.instance_ha import bodies
from yaffle.errors import YaffleError

if TYPE_CHECKING:
    from starlette.responses import Response

PREFIX: Final = "/instance-ha/v1"
OLDEST: Final = Microversion(1, 0)
DETAILS: Final = Microversion(1, 1)
"""Notifications are shown with what has been done."""
NEWEST: Final = Microversion(1, 3)


def answer(error: YaffleError) -> Response:
    """Return the refusal for an error; a page where no route was reached."""
    if isinstance(error, NoSuchPlace):
        return page(HTTPStatus.NOT_FOUND)
    told = errors.answer(error)  # its status and headers; the shape is Masakari's
    headers = {name: value for name, value in told.headers.items() if name == "retry-after"}
    said = f"{error} {error.hint}".strip()[: errors.MESSAGE_MAX]
    return Reply(fault(error.status, said), error.status, headers)


FACE: Final = Face(
    prefix=PREFIX,
    spoken=Spoken(
        service="instance-ha",
        oldest=OLDEST,
        newest=NEWEST,
        absent=OLDEST,
        malformed="API Version String {0} is of invalid format. Must be of format"
        " MajorNum.MinorNum.",
        unsupported="Version {0} is not supported by the API. Minimum is {1} and maximum is {2}.",
    ),
    answer=answer,
    read=bodies.read,
    versions_refusals=True,
)
