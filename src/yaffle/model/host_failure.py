"""The failure of a host, as it is told to recovery controllers: one value that never changes (seed 3)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFailure:
    """A host that failed and was proved to be off; every endpoint and every attempt gets the same."""

    id: str
    """A UUID: receivers know a repeat by it."""
    hostname: str
    """Its fully qualified name, by the map in the settings."""
    failure_s: int
    """When it failed (seconds since the epoch)."""
    generated_s: int
    """When that was written down (seconds since the epoch)."""
    on_shared_storage: bool
    """Whether its instances lie on shared storage, by the settings; never guessed."""
    proof: str
    """Why it is known to be off: method, evidence, by whom."""

    def payload(self) -> dict[str, object]:
        """Return what seed 3 says of it."""
        return {
            "hostname": self.hostname,
            "on_shared_storage": self.on_shared_storage,
            "failure_time": self.failure_s,
        }

    def document(self) -> dict[str, object]:
        """Return the whole notification, as seed 3 has it; times in whole seconds since the epoch."""
        return {
            "id": self.id,
            "event_type": "host failure",
            "version": "1.0",
            "generated_time": self.generated_s,
            "payload": self.payload(),
        }
