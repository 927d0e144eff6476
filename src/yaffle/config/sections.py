"""The tables of the settings file, each with its keys, defaults and bounds.

The reference page is generated from these models: a description here is documentation.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from yaffle.config.address import OFF, split_address
from yaffle.model.authz import GRANTED
from yaffle_health import BadOption, uris

Seconds = Annotated[float, Field(gt=0)]


class Section(BaseModel):
    """One table of the file; frozen, and strict about its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class KeystoneSettings(Section):
    """OpenStack's Keystone says who asks: tokens in `X-Auth-Token`."""

    auth_url: str = Field(description="Keystone's address: `https://keystone.example.org/v3`.")
    www_authenticate_uri: str | None = Field(
        default=None, description="What a 401 tells clients; default: `auth_url`."
    )
    username: str = Field(
        default="yaffle", description="The service user that may validate other people's tokens."
    )
    password_file: Path = Field(description="Its password; a file that nobody else can read.")
    project_name: str = Field(default="service", description="The project of that user.")
    user_domain_name: str = Field(default="Default", description="The domain of that user.")
    project_domain_name: str = Field(default="Default", description="The domain of its project.")
    region_name: str | None = Field(default=None, description="Where in the catalog to look.")
    interface: Literal["admin", "internal", "public"] = Field(
        default="internal", description="By which of Keystone's endpoints it is asked."
    )
    cafile: Path | None = Field(
        default=None,
        description="Certificates that Keystone's is judged by; default: the system's.",
    )
    timeout: Seconds = Field(default=5.0, le=60, description="One question to Keystone (s).")
    roles: dict[str, str] = Field(
        default_factory=dict,
        description="Names of Keystone's roles → ours (reader, member, admin, fence, override). Roles"
        " of the same name need no line.",
    )

    @field_validator("auth_url", "www_authenticate_uri")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"https?://[^/?#\s@\"]+(/[^?#\s\"]*)?", value):
            raise ValueError("it is no URL such as https://keystone.example.org/v3")
        return value

    @field_validator("roles")
    @classmethod
    def _known(cls, value: dict[str, str]) -> dict[str, str]:
        for role, ours in value.items():
            if ours not in GRANTED:
                raise ValueError(f"{role} = {ours!r}: known are {', '.join(GRANTED)}")
        return value


class ServerSettings(Section):
    """Where the API listens and who may speak to it."""

    listen: str = Field(
        default="127.0.0.1:8777", description="HOST:PORT of the API and its metrics."
    )
    token_file: Path | None = Field(
        default=None,
        description="File with bearer tokens, one a line. Off loopback, this or `users_file` is"
        " required; on it, without either, nobody has to say who they are.",
    )
    users_file: Path | None = Field(
        default=None,
        description="File with names and hashed passwords for HTTP basic; `yaffle user` writes it.",
    )
    session_life: Seconds = Field(
        default=43_200.0,
        le=43_200,
        description="How long a session lasts that a password was exchanged for (s).",
    )
    keystone: KeystoneSettings | None = Field(
        default=None,
        description="Tokens of OpenStack's Keystone are accepted as well; needs `yaffle[openstack]`.",
    )
    tls_certificate: Path | None = Field(
        default=None,
        description="The server's certificate and those that lead to its authority (PEM); with"
        " `tls_key` the server speaks HTTPS and nothing else. Both are read again when they change.",
    )
    tls_key: Path | None = Field(
        default=None, description="Its key (PEM, without a password); a file nobody else can read."
    )
    tls_client_ca: Path | None = Field(
        default=None,
        description="Authorities (PEM): only clients with a certificate of theirs are spoken to.",
    )
    tls_by_proxy: bool = Field(
        default=False,
        description="A proxy in front speaks TLS, and nobody else reaches this address. Without this"
        " and without `tls_certificate`, `users_file` is refused off loopback: passwords would"
        " travel in the clear.",
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(),
        description="Host names accepted in the Host header, besides loopback and `listen`.",
    )
    max_body: int = Field(default=1_048_576, gt=0, description="Largest request body (bytes).")
    connections: int = Field(
        default=1024,
        gt=0,
        description="Connections at once; never more than half of the process's descriptors. Whoever"
        " has been silent for longest makes room for others.",
    )
    connections_of_peer: int = Field(
        default=128,
        gt=0,
        description="Connections at once from one address (IPv6: from one /64). Loopback and trusted"
        " proxies have no such share.",
    )
    trusted_proxies: tuple[str, ...] = Field(
        default=(),
        description="Addresses or networks of proxies whose `X-Forwarded-For` (or PROXY header, with"
        " `proxy_protocol`) says who asks: shares, logs and the back-off of sign-ins then count by"
        " caller, not by proxy.",
    )

    proxy_protocol: bool = Field(
        default=False,
        description="Each connection from a trusted proxy begins with a header of the PROXY protocol"
        " (HAProxy's `send-proxy` or `send-proxy-v2`), also before TLS, and is closed otherwise."
        " Nobody else may send one.",
    )

    @field_validator("listen")
    @classmethod
    def _host_and_port(cls, value: str) -> str:
        split_address(value)
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for one in value:
            ipaddress.ip_network(one, strict=False)
        return value

    @model_validator(mode="after")
    def _pair(self) -> Self:  # noqa: N804 - a validator of the whole, not of the class
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key come together")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise ValueError("tls_client_ca needs tls_certificate and tls_key")
        if self.proxy_protocol and not self.trusted_proxies:
            raise ValueError(
                "proxy_protocol needs trusted_proxies: from nobody else is it believed"
            )
        return self


class DatabaseSettings(Section):
    """Where facts are kept."""

    url: str | None = Field(
        default=None,
        description="`sqlite:///PATH`, `postgresql://USER:PASSWORD@HOST/NAME` or"
        " `mariadb://USER:PASSWORD@HOST/NAME`; what follows a `?` goes to the driver. Default: the"
        " file `yaffle.db` in the state directory.",
    )


class EngineSettings(Section):
    """How the engine watches and acts."""

    lease: Seconds = Field(default=10.0, description="Life of a lease without renewal (s).")
    workers: int = Field(
        default=64, gt=0, description="Actions carried out at once by this engine."
    )
    late: Seconds = Field(
        default=1.0, description="A loop later than this is blind for that while (s)."
    )
    clock_jump: Seconds = Field(
        default=2.0, description="A wall clock step larger than this resettles (s)."
    )
    poll: Seconds = Field(
        default=1.0, description="Pace at which changes by others are noticed (s)."
    )
    default_interval: Seconds = Field(
        default=10.0, description="Pace of planning without a policy (s)."
    )
    action_timeout: Seconds = Field(default=600.0, description="Bound of a create or delete (s).")
    update_timeout: Seconds = Field(
        default=3600.0,
        description="Bound of changing a copy where it is (s): a resize may copy its disk. A node in"
        " a cluster has the cluster's `timeout` at most.",
    )
    listen: str = Field(
        default="127.0.0.1:8778",
        description="HOST:PORT where `yaffle engine` answers `/health` and `/metrics`, and nothing"
        " else; `off` for nowhere. Who may ask is said in the section `server`. A second engine on"
        " one machine needs another port.",
    )

    @field_validator("listen")
    @classmethod
    def _host_and_port_or_off(cls, value: str) -> str:
        if value != OFF:
            split_address(value)
        return value


class BudgetSettings(Section):
    """What one scope may do at once and over time."""

    max_in_flight: int = Field(gt=0, description="Recoveries under way at once.")
    burst: int = Field(gt=0, description="Recoveries that may start at once after a quiet time.")
    per_hour: float = Field(gt=0, description="Recoveries an hour in the long run.")


class BudgetsSettings(Section):
    """Budgets shared by many clusters; a hundred small clusters together are still a storm."""

    total: BudgetSettings = Field(
        default=BudgetSettings(max_in_flight=10, burst=20, per_hour=120),
        description="The whole installation.",
    )
    project: BudgetSettings = Field(
        default=BudgetSettings(max_in_flight=10, burst=20, per_hour=120),
        description="Each project.",
    )
    domain: BudgetSettings = Field(
        default=BudgetSettings(max_in_flight=5, burst=10, per_hour=60),
        description="Each failure domain named by a policy.",
    )
    host: BudgetSettings = Field(
        default=BudgetSettings(max_in_flight=10, burst=20, per_hour=120), description="Each host."
    )
    cluster: BudgetSettings = Field(
        default=BudgetSettings(max_in_flight=10, burst=10, per_hour=60), description="Each cluster."
    )


class NetworkSettings(Section):
    """Addresses that Yaffle may speak to on a user's behalf; checked at connect."""

    allow: tuple[str, ...] = Field(
        default=(), description="CIDRs; empty allows what is not denied."
    )
    deny: tuple[str, ...] | None = Field(
        default=None,
        description="CIDRs; default: link-local, and the metadata services of clouds (SECURITY.md)."
        " A list of yours replaces these.",
    )

    @field_validator("allow", "deny")
    @classmethod
    def _cidrs(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for text in value or ():
            ipaddress.ip_network(text, strict=False)
        return value


class LocalProcessSettings(Section):
    """Nodes that are processes of this machine."""

    enabled: bool = Field(
        default=False, description="Whoever may create nodes may run commands as Yaffle's user."
    )


class HostsSettings(Section):
    """Hosts, as `[alerts]` tell of their failures."""

    on_shared_storage: bool | None = Field(
        default=None,
        description="Whether the instances of hosts lie on shared storage. There is no default, for it"
        " is never guessed: required where there are `[alerts]`.",
    )
    exceptions: dict[str, bool] = Field(
        default_factory=dict,
        description="Host → whether its instances do, where that is another answer than the rule's.",
    )
    names: dict[str, str] = Field(
        default_factory=dict,
        description="Host, as its cloud or cluster calls it → its fully qualified name, where that is"
        " another.",
    )
    poll: Seconds = Field(default=5.0, description="Pace at which host monitors are asked (s).")
    unfenced_after: Seconds = Field(
        default=180.0,
        description="A host that is lost for so long and that nobody has proved off is `unfenced` (s).",
    )
    fence_lost: bool = Field(
        default=False,
        description="Whether an `unfenced` host is switched off by the devices of `drivers.HOST`.",
    )
    fence_share: float = Field(
        default=0.25,
        gt=0,
        le=1,
        description="So large a share of a monitor's hosts may have failed at once; of more, none is"
        " fenced by itself. One always may.",
    )
    domains: dict[str, tuple[str, ...]] = Field(
        default_factory=dict,
        description="Failure domain, e.g. a rack → patterns of its hosts' names. `fence_share` holds for"
        " the hosts of each, too; a host is in the first that names it.",
    )

    @field_validator("domains")
    @classmethod
    def _named(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for domain, patterns in value.items():
            if not (domain.strip() and patterns and all(p.strip() for p in patterns)):
                raise ValueError(f"{domain!r} needs a name and patterns of hosts' names")
        return value


class HostSenderSettings(Section):
    """Somebody who tells of failed hosts by signed JSON (`POST /yaffle/v1/host-failures`)."""

    secret_file: Path = Field(description="The secret that we share, at least 16 bytes.")
    old_secret_file: Path | None = Field(
        default=None, description="The one before, while the secret is being changed."
    )


class QuotaSettings(Section):
    """How much there may be, so that one mistyped number does not fill the installation."""

    clusters: int = Field(default=10_000, gt=0, description="Clusters of one project.")
    nodes: int = Field(default=1000, gt=0, description="Nodes of one cluster.")


class RetentionSettings(Section):
    """How long history is kept (days)."""

    events: float = Field(default=30.0, gt=0, description="Events and decisions.")
    actions: float = Field(default=7.0, gt=0, description="Actions and their steps.")
    incidents: float = Field(
        default=365.0, gt=0, description="Incidents, proofs, and failures of hosts."
    )


class ReceiversSettings(Section):
    """Webhooks that start an action of a cluster; whoever has the URL may."""

    public_url: str | None = Field(
        default=None,
        description="How callers reach this server (`https://yaffle.example.org:8777`): the"
        " beginning of every webhook's URL. Default: as its creator reached it.",
    )
    burst: int = Field(
        default=10, gt=0, description="Triggers of one webhook at once after a quiet time."
    )
    per_minute: float = Field(
        default=60.0, gt=0, description="Triggers of one webhook a minute in the long run."
    )
    max_age: float | None = Field(
        default=None,
        gt=0,
        description="So long after it was made every webhook ends, if not before (days). Default: when"
        " it says so itself, or never.",
    )
    keys_file: Path | None = Field(
        default=None,
        description="The keys that hide ids of webhooks in the database, one a line, the newest first;"
        " a file that nobody else can read, the same on every machine of one database."
        " Default: `STATE_DIR/receivers.key`, which is made when it is needed.",
    )

    @field_validator("public_url")
    @classmethod
    def _plain_url(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"https?://[^/?#\s@]+(/[^?#\s]*)?", value):
            raise ValueError("it is no URL such as https://yaffle.example.org:8777")
        return None if value is None else value.rstrip("/")


class CredentialsSettings(Section):
    """What users hand to Yaffle so that it may act in their projects."""

    keys_file: Path | None = Field(
        default=None,
        description="The keys that their credentials are sealed with in the database, one a line, the"
        " newest first; a file that nobody else can read."
        " `yaffle credential new-key --file FILE` writes it."
        ' Needed where a driver has `credentials = "projects"`.',
    )


class HealthcheckSettings(Section):
    """Where this process says how it is, on sockets that are served even while it hangs."""

    uri: str = Field(
        default="",
        description="Addresses, separated by commas: `unix:///run/yaffle/engine.health`,"
        " `tcp://127.0.0.1:9777`; empty for none. `GET /health` there is answered by a thread of its"
        " own, beside that of `listen`, which stands still when the process does.",
    )
    ttl: int = Field(
        default=10, ge=0, description="How long a check is believed that is told no more (s)."
    )
    cache_control: int = Field(
        default=-1, ge=-1, description="`max-age` of the answers (s); 0: no header, -1: `no-cache`."
    )

    @field_validator("uri")
    @classmethod
    def _addresses(cls, value: str) -> str:
        try:
            uris.parse(value)
        except BadOption as error:
            raise ValueError(str(error)) from None
        return value


class AuditSettings(Section):
    """Who changed what and who was refused: lines in the state directory, each sealed by the next."""

    files: int = Field(
        default=16, ge=0, description="How many files are kept, the oldest go; 0: no audit log."
    )
    file_size: int = Field(
        default=16_777_216,
        ge=4096,
        description="A file that would grow larger is followed (bytes).",
    )


class LogSettings(Section):
    """What is logged, and how."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level."
    )
    format: Literal["auto", "json", "text"] = Field(
        default="auto", description="auto: text on a terminal, JSON elsewhere."
    )
