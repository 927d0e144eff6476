"""What the shell needs from the outside, as Protocols: nobody inherits our code, mypy checks the fit.

Every call takes a `deadline_s`: the driver gives up by itself within that many seconds of being
called. Drivers turn what they expect (`OSError`, timeouts, error answers) into values; an exception
that escapes is a bug of the driver, logged with its traceback and treated as unknown.
"""

from yaffle.ports.clock import Clock, SteeredClock
from yaffle.ports.context import DriverContext
from yaffle.ports.detector import (
    Choosing,
    Detector,
    Ear,
    Eared,
    Hearing,
    Remembering,
    Sink,
    StreamingDetector,
    Surveying,
    UrlProber,
    UrlResult,
    UrlTarget,
    Whole,
)
from yaffle.ports.fencer import Discerning, Fencer, NeedsSettings
from yaffle.ports.notifier import Message, Notifier
from yaffle.ports.profile import (
    Adopting,
    Curing,
    Describing,
    Foreseeing,
    Hosted,
    Listing,
    Pooling,
    Profile,
    Sharing,
    Straying,
    Tracing,
    Vacating,
)
from yaffle.ports.workflow import Workflow

__all__ = [
    "Adopting",
    "Choosing",
    "Clock",
    "Curing",
    "Describing",
    "Detector",
    "Discerning",
    "DriverContext",
    "Ear",
    "Eared",
    "Fencer",
    "Foreseeing",
    "Hearing",
    "Hosted",
    "Listing",
    "Message",
    "NeedsSettings",
    "Notifier",
    "Pooling",
    "Profile",
    "Remembering",
    "Sharing",
    "Sink",
    "SteeredClock",
    "Straying",
    "StreamingDetector",
    "Surveying",
    "Tracing",
    "UrlProber",
    "UrlResult",
    "UrlTarget",
    "Vacating",
    "Whole",
    "Workflow",
]
