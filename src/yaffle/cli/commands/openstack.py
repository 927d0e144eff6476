"""`yaffle openstack …`: what is done to a cloud once, with an administrator's credentials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, cast

import typer

from yaffle.cli.command import Json, group
from yaffle.cli.output import Output

if TYPE_CHECKING:
    from openstack.connection import Connection
    from openstack.identity.v3._proxy import Proxy as Keystone

    from yaffle.integrations.openstack.catalog_registration import Change

TIMEOUT_S = 30

app = group("OpenStack: what a cloud has to know of Yaffle.")

Cloud = Annotated[
    str,
    typer.Option(
        "--cloud",
        envvar="OS_CLOUD",
        metavar="NAME",
        help="The cloud's name in clouds.yaml, with an administrator's credentials.",
    ),
]
Region = Annotated[
    str | None,
    typer.Option(
        "--region",
        envvar="OS_REGION_NAME",
        metavar="ID",
        help="Default: the cloud's in clouds.yaml.",
    ),
]


InstanceHa = Annotated[
    bool,
    typer.Option(
        "--instance-ha",
        help="Also as the service `instance-ha`, which Masakari's monitors and clients look for; what"
        " stands there of a Masakari in that region is replaced.",
    ),
]


@app.command("register")
def register(
    url: Annotated[
        str,
        typer.Option("--url", metavar="URL", help="Where clients reach the API, without /v1."),
    ],
    cloud: Cloud,
    internal_url: Annotated[
        str | None,
        typer.Option("--internal-url", metavar="URL", help="For services. Default: --url."),
    ] = None,
    admin_url: Annotated[
        str | None,
        typer.Option("--admin-url", metavar="URL", help="For administrators. Default: --url."),
    ] = None,
    region: Region = None,
    name: Annotated[str, typer.Option("--name", help="The service's name.")] = "yaffle",
    *,
    instance_ha: InstanceHa = False,
    as_json: Json = False,
) -> None:
    """Put Yaffle into the catalog, or correct what stands there; doing it again changes nothing."""
    from yaffle.integrations.openstack import catalog_registration

    urls = catalog_registration.urls(
        _plain(url, "--url"),
        internal=internal_url and _plain(internal_url, "--internal-url"),
        admin=admin_url and _plain(admin_url, "--admin-url"),
    )
    with _connected(cloud) as connection:
        entry = catalog_registration.Entry(
            urls=urls, region=region or _region(connection), name=name
        )
        entries = [entry, entry.of_instance_ha()] if instance_ha else [entry]
        done = [catalog_registration.register(_keystone(connection), one) for one in entries]
    said = [
        f"service {one.type} ({one.name}): {service}"
        for one, (service, _) in zip(entries, done, strict=True)
    ]
    changes = [change for _, made in done for change in made]
    _say(said, changes, {"service": done[0][0]}, as_json=as_json)


@app.command("unregister")
def unregister(
    cloud: Cloud, region: Region = None, *, instance_ha: InstanceHa = False, as_json: Json = False
) -> None:
    """Take Yaffle's endpoints of a region out of the catalog."""
    from yaffle.integrations.openstack import catalog_registration

    types = [catalog_registration.SERVICE_TYPE]
    if instance_ha:
        types.append(catalog_registration.INSTANCE_HA)
    with _connected(cloud) as connection:
        changes = [
            change
            for one in types
            for change in catalog_registration.unregister(
                _keystone(connection), one, region or _region(connection)
            )
        ]
    _say([] if changes else ["nothing of Yaffle stood there"], changes, {}, as_json=as_json)


def _say(
    lines: Sequence[str],
    changes: Sequence[Change],
    more: Mapping[str, object],
    *,
    as_json: bool,
) -> None:
    done = [
        {
            "step": change.step,
            "interface": change.endpoint.interface,
            "region": change.endpoint.region,
            "url": change.endpoint.url,
            **({"before": change.before} if change.before else {}),
        }
        for change in changes
    ]
    shown = [
        f"{d['interface']:8} {d['url']} in {d['region']}: {d['step']}"
        + (f" (was {d['before']})" if "before" in d else "")
        for d in done
    ]
    Output(as_json=as_json).say({**more, "endpoints": done}, "\n".join([*lines, *shown]))


def _plain(url: str, option: str) -> str:
    from urllib.parse import urlsplit

    from yaffle.errors import BadRequest

    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise BadRequest(f"{option} {url!r} is no URL such as https://yaffle.example.org:8777")
    if parts.path.rstrip("/").endswith("/v1"):
        raise BadRequest(
            f"{option} {url!r} ends in /v1",
            hint="leave that out: clients find the version by themselves",
        )
    return url.rstrip("/")


def _keystone(connection: Connection) -> Keystone:
    return cast("Keystone", connection.identity)


def _region(connection: Connection) -> str:
    from yaffle.errors import BadRequest

    name = connection.config.region_name
    if not name:
        raise BadRequest("which region? clouds.yaml names none", hint="say it with --region")
    return str(name)


@contextmanager
def _connected(cloud: str) -> Iterator[Connection]:
    """Yield a connection; what the cloud refuses or fails at becomes an error that names it."""
    from yaffle.errors import ConfigError, DependencyError, Forbidden

    try:
        import openstack
        from keystoneauth1.exceptions import ClientException, Unauthorized
        from openstack.exceptions import ConfigException, ForbiddenException, SDKException
    except ModuleNotFoundError as missing:
        raise ConfigError(
            f"this needs the extra `openstack` ({missing.name} is not installed)",
            hint="pip install 'yaffle[openstack]'",
        ) from None
    try:
        connection = openstack.connect(cloud=cloud, api_timeout=TIMEOUT_S)
    except ConfigException as error:
        raise ConfigError(
            f"--cloud {cloud}: {error}",
            hint="it has to stand in ./clouds.yaml, ~/.config/openstack/clouds.yaml or the file that"
            " OS_CLIENT_CONFIG_FILE names",
        ) from None
    try:
        with connection:
            yield connection
    except (Unauthorized, ForbiddenException) as error:
        raise Forbidden(
            f"cloud {cloud}: {error}", hint="an administrator's credentials are needed"
        ) from None
    except (SDKException, ClientException, OSError) as error:
        raise DependencyError(f"cloud {cloud}: {error}") from None
