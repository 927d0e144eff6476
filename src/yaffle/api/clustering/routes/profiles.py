"""Profiles: how nodes are built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from yaffle.api.clustering import lists, request_schemas, response_schemas, serializers
from yaffle.api.clustering.lists import Filter, Noun
from yaffle.api.clustering.microversion import V1_2
from yaffle.api.clustering.request import ApiRequest
from yaffle.api.clustering.table import Good, Route
from yaffle.api.clustering.validation import changed, created
from yaffle.api.http.reply import Reply
from yaffle.engine.runtime.context import LOCAL_PROCESS
from yaffle.errors import NotFound
from yaffle.store.tables import profiles

if TYPE_CHECKING:
    from starlette.responses import Response

NOUN: Final = Noun(
    word="profile",
    plural="profiles",
    table=profiles,
    fetch=serializers.profiles_by_id,
    filters={"name": Filter(column=profiles.c.name), "type": Filter(column=profiles.c.type)},
    sorts={
        "type": profiles.c.type,
        "name": profiles.c.name,
        "created_at": profiles.c.created_us,
        "updated_at": profiles.c.updated_us,
    },
    order=(profiles.c.created_us, profiles.c.id),
)
EXAMPLE: Final = {
    "name": "web",
    "spec": {
        "type": "yaffle.local.process",
        "version": "1.0",
        "properties": {"command": ["python3", "-m", "http.server", "{port}"], "port": "auto"},
    },
}


async def list_profiles(call: ApiRequest) -> Response:
    """List profiles, the oldest first."""
    return await lists.listed(call, NOUN)


async def create_profile(call: ApiRequest) -> Response:
    """Create a profile after its driver has validated the properties."""
    spec = _spec(call)
    ident = await call.parts.commands.create_profile(
        str(call.body["name"]),
        _kind(call, spec),
        _properties(spec),
        who=call.who,
        given=spec,
        metadata=call.mapping("metadata"),
    )
    return Reply({"profile": await lists.one(call, NOUN, ident)}, 201)


async def validate_profile(call: ApiRequest) -> Response:
    """Say whether a spec would be accepted, without storing anything."""
    spec = _spec(call)
    kind = _kind(call, spec)
    call.parts.commands.validated_profile(kind, _properties(spec))
    return Reply({"profile": serializers.profile(_validated(call, kind, spec))})


async def show_profile(call: ApiRequest) -> Response:
    """Show one profile."""
    return Reply({"profile": await lists.one(call, NOUN, call.path["profile"])})


async def update_profile(call: ApiRequest) -> Response:
    """Change name or metadata; the spec of a profile never changes."""
    ident = await call.parts.commands.update_profile(
        call.who,
        call.path["profile"],
        name=call.text("name"),
        metadata=call.mapping("metadata"),
    )
    return Reply({"profile": await lists.one(call, NOUN, ident)})


async def delete_profile(call: ApiRequest) -> Response:
    """Delete a profile that no cluster and no node uses."""
    await call.parts.commands.delete_profile(call.path["profile"], who=call.who)
    return call.gone()


def _spec(call: ApiRequest) -> Mapping[str, object]:
    spec = call.mapping("spec")
    assert spec is not None  # noqa: S101 - the schema requires it
    return spec


def _kind(call: ApiRequest, spec: Mapping[str, object]) -> str:
    kind = f"{spec['type']}-{spec['version']}"
    known = call.parts.queries.drivers.profiles
    # What is only switched off is not unknown: the verb says what would switch it on.
    if kind not in known and kind != LOCAL_PROCESS:
        raise NotFound(
            f"The profile_type '{kind}' could not be found.",
            hint=f"known: {', '.join(sorted(known)) or 'none'}",
        )
    return kind


def _properties(spec: Mapping[str, object]) -> Mapping[str, object]:
    given = spec.get("properties")
    return given if isinstance(given, Mapping) else {}


def _validated(call: ApiRequest, kind: str, spec: Mapping[str, object]) -> Mapping[str, object]:
    return {
        "id": None,
        "name": "validated_profile",
        "type": kind,
        "given": spec,
        "metadata": None,
        "user": call.who.user,
        "project": call.who.project,
        "domain": call.who.domain,
        "created_us": None,
        "updated_us": None,
    }


ONE: Final = response_schemas.single("profile", response_schemas.PROFILE)
ROUTES: Final = (
    Route(
        method="GET",
        path="/profiles",
        handler=list_profiles,
        tag="profiles",
        params=NOUN.params,
        good=Good(schema=response_schemas.listed("profiles", response_schemas.PROFILE)),
    ),
    Route(
        method="POST",
        path="/profiles",
        handler=create_profile,
        tag="profiles",
        body=created("profile", request_schemas.PROFILE_CREATE, EXAMPLE),
        good=Good(status=201, schema=ONE),
    ),
    Route(
        method="POST",
        path="/profiles/validate",
        handler=validate_profile,
        tag="profiles",
        since=V1_2,
        body=created("profile", request_schemas.VALIDATE, {"spec": EXAMPLE["spec"]}),
        good=Good(schema=ONE),
    ),
    Route(
        method="GET",
        path="/profiles/{profile}",
        handler=show_profile,
        tag="profiles",
        good=Good(schema=ONE),
    ),
    Route(
        method="PATCH",
        path="/profiles/{profile}",
        handler=update_profile,
        tag="profiles",
        body=changed("profile", request_schemas.PROFILE_UPDATE, {"name": "web-2"}),
        good=Good(schema=ONE),
    ),
    Route(
        method="DELETE",
        path="/profiles/{profile}",
        handler=delete_profile,
        tag="profiles",
        good=Good(status=204, text="It is gone."),
    ),
)
