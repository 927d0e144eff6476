"""Neutron's ports without a network under them: each is bound where Nova wants it, and works at once."""

from __future__ import annotations

from typing import Any

from neutron_lib import constants  # type: ignore[import-not-found,unused-ignore]
from neutron_lib.api.definitions import (  # type: ignore[import-not-found,unused-ignore]
    portbindings,
)
from neutron_lib.plugins.ml2 import api  # type: ignore[import-not-found,unused-ignore]


class Lab(api.MechanismDriver):  # type: ignore[misc,unused-ignore]
    """Binds every port to its first segment."""

    def initialize(self) -> None:
        """Have nothing to prepare."""

    def bind_port(self, context: Any) -> None:
        """Say that the port works on its host, whichever that is."""
        segment = context.segments_to_bind[0]
        context.set_binding(
            segment[api.ID],
            portbindings.VIF_TYPE_OVS,
            {portbindings.CAP_PORT_FILTER: True},
            status=constants.PORT_STATUS_ACTIVE,
        )
