"""Request bodies of our own API: strict, so that a misspelt key is an error."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

UUID_PATTERN = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
Name = Annotated[str, Field(min_length=1, max_length=255, description="1 to 255 characters.")]
Reason = Annotated[
    str, Field(min_length=1, max_length=1000, description="Why, for whoever finds this at night.")
]
ForS = Annotated[
    float, Field(gt=0, allow_inf_nan=False, description="How long it holds, in seconds.")
]


class Strict(BaseModel):
    """Base of all that is read from requests."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Body(Strict):
    """Base of request bodies by which somebody asks for something."""

    by: Name | None = Field(
        default=None,
        description="Who asks; ignored where a token says who it is. Default: local user.",
    )


class DocumentBody(Body):
    """A policy document, as parsed JSON (`document`) or as YAML (`text`); exactly one."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "document": {
                        "type": "senlin.policy.health",
                        "version": "1.3",
                        "properties": {
                            "detection": {
                                "interval": 5,
                                "detection_modes": [{"type": "NODE_STATUS_POLLING"}],
                            },
                            "recovery": {"actions": [{"name": "RECREATE"}]},
                        },
                    }
                }
            ]
        }
    )

    document: dict[str, Any] | None = Field(default=None, description="The document.")
    text: str | None = Field(
        default=None, description="The same as YAML; faults then have line and column."
    )
    source: str = Field(
        default="policy.yaml", max_length=255, description="Name of the text in messages."
    )

    @model_validator(mode="after")
    def _one_of(self) -> Self:  # noqa: N804 - `mode="after"` is a method
        if (self.document is None) == (self.text is None):
            raise ValueError("give either `document` or `text`")
        return self


class ReleaseBody(Body):
    """Releases the storm limit of a cluster."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "the switch is repaired", "for_s": 600}]}
    )

    reason: Reason
    for_s: ForS = 600.0


class ReasonBody(Body):
    """Says why."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "its disk is failing"}]})

    reason: Reason


class OptionalReasonBody(Body):
    """May say why."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "the disk was replaced"}]})

    reason: str = Field(default="", max_length=1000)


class ByBody(Body):
    """May say who."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"by": "mara"}]})


class MaintenanceBody(Body):
    """Planned work, during which nothing is healed."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"scope": "node", "target": "web-1", "reason": "new disk", "for_s": 3600.0},
                {"scope": "host", "target": "compute1", "reason": "new memory", "for_s": 7200.0},
                {"scope": "all", "reason": "moving the rack"},
            ]
        }
    )

    scope: Literal["node", "cluster", "host", "all"]
    target: str = Field(
        default="", max_length=255, description="Node, cluster or host; none for all."
    )
    reason: Reason
    for_s: ForS | None = Field(default=None, description="Seconds; absent: until it is lifted.")

    @model_validator(mode="after")
    def _target_fits(self) -> Self:  # noqa: N804 - `mode="after"` is a method
        if (self.scope == "all") != (self.target == ""):
            raise ValueError("`target` names the node, cluster or host; scope `all` has none")
        return self


class StopBody(Body):
    """The global stop."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "network works", "for_s": 3600.0}]}
    )

    reason: Reason
    for_s: ForS | None = Field(default=None, description="Seconds; absent: until it is lifted.")


class RedeliverBody(Body):
    """Choice of the parked messages to send again."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"seqs": [17, 18]}, {}]})

    seqs: list[Annotated[int, Field(ge=1, le=2**62)]] | None = Field(
        default=None, max_length=1000, description="Their numbers; absent: all of them."
    )


class ToldFailure(Strict):
    """The payload of a host's failure (seed 3)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "hostname": "cmp1.example.org",
                    "on_shared_storage": True,
                    "failure_time": 1792000000,
                }
            ]
        }
    )

    hostname: str = Field(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9._-]+$")
    on_shared_storage: bool = Field(description="Whether its instances lie on shared storage.")
    failure_time: int = Field(ge=0, le=253_402_300_799, description="Seconds since the epoch.")


class ToldFailureBody(Strict):
    """Tells of a failed host, as OpenStack's specification of host monitoring has it (seed 3)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "2f0f7d0c-7a3e-4d0c-8a7a-6f6f1c6c8b01",
                    "event_type": "host failure",
                    "version": "1.0",
                    "generated_time": 1792000030,
                    "payload": {
                        "hostname": "cmp1.example.org",
                        "on_shared_storage": True,
                        "failure_time": 1792000000,
                    },
                }
            ]
        }
    )

    id: str = Field(
        pattern=UUID_PATTERN, description="A repeat has the same; it is what is signed."
    )
    event_type: Literal["host failure"]
    version: Literal["1.0"]
    generated_time: int = Field(ge=0, le=253_402_300_799, description="Seconds since the epoch.")
    payload: ToldFailure


class HostFailureBody(Body):
    """Says that a host has failed, and why it is known to be off."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"proof": "power cut at the PDU, port 7", "failure_time": 1792000000}]
        }
    )

    proof: str = Field(
        min_length=1,
        max_length=1000,
        description="Why it is known to be off: its instances are started elsewhere.",
    )
    failure_time: float | None = Field(
        default=None,
        ge=0,
        le=253_402_300_799,
        allow_inf_nan=False,
        description="When it failed, in seconds since the epoch; absent: now.",
    )
