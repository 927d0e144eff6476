"""Typed ids. API objects have UUIDv4 text; an `Epoch` only grows."""

from __future__ import annotations

from typing import NewType

ClusterId = NewType("ClusterId", str)
NodeId = NewType("NodeId", str)
ProfileId = NewType("ProfileId", str)
PolicyId = NewType("PolicyId", str)
ActionId = NewType("ActionId", str)
IncidentId = NewType("IncidentId", str)
EngineId = NewType("EngineId", str)
PauseId = NewType("PauseId", str)
OperationId = NewType("OperationId", str)
"""Left on the target by whoever acts, so that a successor can recognise half-done work."""
Epoch = NewType("Epoch", int)
"""Fencing token of a lease: every write carries it, and an old one is refused."""
ModeKey = NewType("ModeKey", str)
"""Place and type of a detection mode within its policy: `0:NODE_STATUS_POLLING`."""
