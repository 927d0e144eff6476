"""Reference of settings: Yaffle's own from their models, the drivers' from the code that reads them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final, get_args

from docs.pages.text import attribute_docs, code, first_sentence, join, table
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from docs.pages import heat, nova
from yaffle.config import Settings
from yaffle.drivers.alerts.exec import ExecSettings
from yaffle.drivers.alerts.masakari import MasakariSettings
from yaffle.drivers.detectors.lifecycle.settings import WORDS as LISTENING
from yaffle.drivers.detectors.lifecycle.settings import LifecycleSettings, SourceSettings
from yaffle.drivers.detectors.load_balancer.settings import (
    Balancer,
    BalancerSettings,
    CloudBalancer,
    octavia,
)
from yaffle.drivers.fencers.host.settings import Device, HostSettings
from yaffle.drivers.host_monitors.heartbeat import HeartbeatSettings
from yaffle.drivers.host_monitors.notified import NotifiedSettings
from yaffle.drivers.host_monitors.nova import NovaMonitorSettings
from yaffle.drivers.host_monitors.pacemaker import PacemakerSettings
from yaffle.drivers.profiles.local_process import spec as local_process
from yaffle.drivers.profiles.local_process.plans import OPERATIONS
from yaffle.drivers.workflows.command.settings import Command, CommandSettings
from yaffle.drivers.workflows.http.settings import Endpoint, HttpSettings
from yaffle.integrations.driver_settings import Section
from yaffle.integrations.signed_post import PostSettings

PORTS: Final = (
    "profiles",
    "detectors",
    "fencers",
    "workflows",
    "notifiers",
    "alerts",
    "host_monitors",
)


def settings() -> str:
    """Every setting of the file, with the variable that sets the same."""
    rows = [
        (code(name), code(_variable(name)), code(_default(field)), field.description or "")
        for name, field in walk(Settings)
    ]
    return join(
        "# Settings",
        "A TOML file (`yaffle serve --config FILE`) holds the settings. The environment wins over the\n"
        "file, and flags win over both. An unknown key is an error,\n"
        "and so is an unknown variable `YAFFLE_…`. A start that is refused, and `yaffle doctor`, tell\n"
        "all that is wrong at once, drivers' own settings included, each with its line and the name\n"
        "that was probably meant. Durations are seconds.",
        table(("setting", "environment", "default", "meaning"), rows),
        "A tuple in the environment is JSON: `YAFFLE_NETWORK__DENY='[\"10.0.0.0/8\"]'`.\n"
        "The drivers' own keys below `notifiers.NAME` and `drivers.NAME`: [Drivers](drivers.md).",
    )


def walk(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield every leaf with its dotted name."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            default = field.get_default()
            for inner, leaf in walk(kind, f"{prefix}{name}."):
                yield inner, _with_default(leaf, default, inner.removeprefix(f"{prefix}{name}."))
        else:
            yield f"{prefix}{name}", field


def _with_default(leaf: FieldInfo, owner: object, path: str) -> FieldInfo:
    value = owner
    for part in path.split("."):
        value = getattr(value, part, leaf.default)
    return FieldInfo.merge_field_infos(leaf, default=value) if leaf.is_required() else leaf


def _variable(name: str) -> str:
    return "YAFFLE_" + name.upper().replace(".", "__")


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return str(field.default_factory())  # type: ignore[call-arg]
    value = field.default
    if value is None or value == ():
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    choices = get_args(field.annotation)
    return f"{value:g}" if isinstance(value, float) and float not in choices else str(value)


# --- drivers -------------------------------------------------------------------------------------


CHOSEN: Final = {
    "agent": "/bin/true",
    "credentials": "cloud",
    "type": "haproxy",
    "username": "",
}
"""Texts that have to be right where they are read."""
SHAPES: Final = {
    "hosts": ("list or table", "required"),
    "socket": ("text or list of texts", ""),
    "url": ("text or list of texts", ""),
    "events": ("text or list of texts", ""),
    "events_from": ("text or list of texts", ""),
    "urls": ("list of texts", ""),
    "exchanges": ("list of texts", "nova"),
    "topics": ("list of texts", "notifications, versioned_notifications"),
}
URLS: Final = ("amqps://127.0.0.1/",)


class Recorder(Section):
    """Stands in for a section of the configuration, and notes what is asked of it."""

    def __init__(self, where: str) -> None:
        super().__init__(where, {})
        self.asked: dict[str, tuple[str, str]] = {}
        self.inner: dict[str, Recorder] = {}

    def text(self, key: str, default: str | None = None) -> str:
        self.asked[key] = ("text", "required" if default is None else default)
        if key in CHOSEN:
            return CHOSEN[key]
        if key.endswith("_env"):
            return ""
        return "http://127.0.0.1/{operation_id}" if "url" in key else "text"

    def number(self, key: str, default: float, *, low: float, high: float) -> float:
        self.asked[key] = (f"{low:g} to {high:g}", f"{default:g}")
        return default

    def flag(self, key: str, *, default: bool) -> bool:
        self.asked[key] = ("true or false", str(default).lower())
        # On: what is read only when a driver is enabled is read too.
        return True

    def path(self, key: str) -> Path | None:
        self.asked[key] = ("absolute path", "")
        return None

    def texts(self, key: str) -> tuple[str, ...]:
        self.asked[key] = SHAPES.get(key, ("list of texts", "required"))
        return URLS if key == "urls" else ("/bin/true",)

    def patterns(self, key: str) -> tuple[str, ...]:
        self.asked[key] = ("list of texts", "*")
        return ("*",)

    def text_table(self, key: str) -> dict[str, str]:
        self.asked[key] = ("table of texts", "")
        return {}

    def table(self, key: str) -> dict[str, object]:
        self.asked[key] = ("table", "")
        return {}

    def raw(self, key: str) -> object:
        self.asked[key] = SHAPES[key]
        return {"socket": ["/NAME"], "hosts": ["NAME"], "urls": URLS}.get(key)

    def headers(self, key: str = "headers") -> dict[str, str]:
        self.asked[key] = ("table of texts", "")
        return {}

    def secret(self, key: str = "secret", *, required: bool = True) -> bytes:
        for name, kind in (
            ("_file", "absolute path"),
            ("_env", "name of a variable"),
            ("", "text"),
        ):
            self.asked[key + name] = (kind, "exactly one of three" if required else "")
        return b"0" * 16

    def sections(self, key: str) -> dict[str, Section]:
        self.inner[key] = Recorder(key)
        return {"NAME": self.inner[key]}

    def finish(self) -> None:
        return


def recorded(
    kind: type[
        PostSettings
        | ExecSettings
        | MasakariSettings
        | PacemakerSettings
        | CommandSettings
        | HttpSettings
        | HostSettings
        | BalancerSettings
        | LifecycleSettings
    ],
) -> Recorder:
    """Return what `kind` reads."""
    recorder = Recorder(kind.__name__)
    kind.read(recorder)
    return recorder


WORDS: Final = {
    "url": "Where to POST. `http://` or `https://`, without user and password.",
    "secret_file": "File with the secret for the signature (16 bytes or more).",
    "secret_env": "Variable with the secret.",
    "secret": "The secret itself. Prefer the other two.",
    "headers": "Sent with each request. Yaffle's own headers are refused.",
    "ca_file": "Authority to trust instead of the system's.",
    "client_cert": "Certificate by which the endpoint knows us.",
    "client_key": "Its private key.",
    "enabled": "Off unless true.",
    **LISTENING,
    "cloud": "Name of the cloud in `clouds.yaml`.",
    "clouds_file": "The `clouds.yaml`; where OpenStack's own tools look for it unless given.",
    "argv": "Program and arguments; it starts with an absolute path. No shell.",
}


def _rows(recorder: Recorder, owner: type) -> list[tuple[str, str, str, str]]:
    docs = attribute_docs(owner)
    return [
        (
            code(key),
            kind,
            default if default in {"required", "exactly one of three"} else code(default),
            described(key, docs),
        )
        for key, (kind, default) in recorder.asked.items()
    ]


def described(key: str, docs: dict[str, str] | object) -> str:
    """Return a setting's meaning; KeyError where nobody has written it down."""
    assert hasattr(docs, "get")
    found = docs.get(key) or docs.get(f"{key}_s")
    text = str(found or WORDS[key]).removeprefix(f"`{key}`: ")
    return text[0].upper() + text[1:]


HEAD: Final = ("setting", "value", "default", "meaning")


def _octavia() -> Recorder:
    recorder = Recorder("NAME")
    octavia("NAME", recorder)
    return recorder


def drivers() -> str:
    """Every driver that is installed with Yaffle, and its settings."""
    command, http = recorded(CommandSettings), recorded(HttpSettings)
    host, balancers = recorded(HostSettings), recorded(BalancerSettings)
    listening = recorded(LifecycleSettings)
    return join(
        "# Drivers",
        "Drivers are found through entry points. Those that come with Yaffle:",
        table(("port", "name", "made by", "what it is"), _installed()),
        "A driver that is not named below has no settings. How to write one:\n"
        "[Write a driver](../howto/write-a-driver.md).",
        "## Detector `LB_STATUS_POLLING`",
        "Each load balancer is a table `[drivers.LB_STATUS_POLLING.balancers.NAME]`. A policy can only\n"
        "give `NAME`. How to use it: [Ask the load balancer](../howto/ask-the-load-balancer.md).",
        table(HEAD, _rows(balancers.inner["balancers"], Balancer)),
        'With `type = "octavia"`:',
        table(HEAD, _rows(_octavia(), CloudBalancer)),
        "## Detector `LIFECYCLE_EVENTS`",
        "Each RabbitMQ is a table `[drivers.LIFECYCLE_EVENTS.sources.NAME]`. How to use it: [Listen to\n"
        "notifications](../howto/listen-to-notifications.md).",
        table(HEAD, _rows(listening.inner["sources"], SourceSettings)),
        "## Fencer `HOST`",
        "Each power device is a table `[drivers.HOST.devices.NAME]`; one device switches a host. How to\n"
        "use it: [Fence a host](../howto/fence-a-host.md).",
        table(HEAD, _rows(host.inner["devices"], Device)),
        "## Notifier `webhook`",
        '`[notifiers.ANY_NAME]` with `type = "webhook"`. Signed HTTP POST; tried again until accepted.',
        table(HEAD, _rows(recorded(PostSettings), PostSettings)),
        "## Notifier `log`",
        '`[notifiers.ANY_NAME]` with `type = "log"`. One log line a message. No settings. It is the\n'
        "default; a file that names notifiers replaces it.",
        "## Alert drivers `http_json`, `cloudevents` and `alertmanager`",
        "`[alerts.ANY_NAME]` with `type` as one of these, and `responsible = true` for\n"
        "the endpoint whose acceptance settles a failure. Signed where there is a secret. How to use\n"
        "it: [Tell a recovery controller of failed hosts](../howto/tell-of-failed-hosts.md).",
        "The settings are those of the notifier `webhook`; a secret is not required.",
        "## Alert driver `exec`",
        '`[alerts.ANY_NAME]` with `type = "exec"`.',
        table(HEAD, _rows(recorded(ExecSettings), ExecSettings)),
        "## Alert driver `masakari`",
        '`[alerts.ANY_NAME]` with `type = "masakari"`. Needs `yaffle[openstack]`.',
        table(HEAD, _rows(recorded(MasakariSettings), MasakariSettings)),
        "## Host monitor `pacemaker`",
        '`[host_monitors.ANY_NAME]` with `type = "pacemaker"`, and `cloud` for the entry of\n'
        "`clouds.yaml` whose hosts it sees. How to use it: [Watch hosts](../howto/watch-hosts.md).",
        table(HEAD, _rows(recorded(PacemakerSettings), PacemakerSettings)),
        "## Host monitor `heartbeat`",
        '`[host_monitors.ANY_NAME]` with `type = "heartbeat"`, and `cloud`. How to use it:\n'
        "[Watch hosts without Pacemaker](../howto/watch-hosts-without-pacemaker.md).",
        table(HEAD, _rows(recorded(HeartbeatSettings), HeartbeatSettings)),
        "## Host monitor `notified`",
        '`[host_monitors.ANY_NAME]` with `type = "notified"`, and `cloud`. How to use it:\n'
        "[Be told of failed hosts](../howto/be-told-of-failed-hosts.md).",
        table(HEAD, _rows(recorded(NotifiedSettings), NotifiedSettings)),
        "## Host monitor `nova`",
        '`[host_monitors.ANY_NAME]` with `type = "nova"`. Needs `yaffle[openstack]`. How to use it:\n'
        "[Watch hosts](../howto/watch-hosts.md#hear-novas-opinion-too).",
        table(HEAD, _rows(recorded(NovaMonitorSettings), NovaMonitorSettings)),
        "## Workflow `COMMAND`",
        "`[drivers.COMMAND]`. Off by default.",
        table(HEAD, _rows(command, CommandSettings)),
        "Each program is a table `[drivers.COMMAND.commands.NAME]`. A policy can only give `NAME`.",
        table(HEAD, _rows(command.inner["commands"], Command)),
        "## Workflow `HTTP`",
        "`[drivers.HTTP]`. Off by default.",
        table(HEAD, _rows(http, HttpSettings)),
        "Each service is a table `[drivers.HTTP.endpoints.NAME]`. A policy can only give `NAME`.",
        table(HEAD, _rows(http.inner["endpoints"], Endpoint)),
        _heat(),
        _nova(),
        "## Profile `yaffle.local.process-1.0`",
        "A node is a process of this machine. Off unless `local_process.enabled`\n"
        "(`yaffle serve --allow-local-process`). Properties of a profile:",
        table(("property", "default", "meaning"), _properties()),
        "Expansions in `command`, `env`, `cwd` and `log_file`: "
        + ", ".join(code("{" + name + "}") for name in local_process.EXPANSIONS)
        + ".\nA brace is written twice: `{{`.",
        "Operations:",
        table(("operation", "in place", "parameters", "what it does"), _operations()),
    )


def _heat() -> str:
    recorder = Recorder("HeatSettings")
    return heat.profile(recorder, recorder.asked)


def _nova() -> str:
    recorder = Recorder("NovaSettings")
    return nova.profile(recorder, recorder.asked)


def _installed() -> Iterator[tuple[str, str, str, str]]:
    for port in PORTS:
        for point in sorted(entry_points(group=f"yaffle.{port}"), key=lambda p: p.name):
            if point.value.startswith("yaffle."):
                yield (
                    port.removesuffix("s"),
                    code(point.name),
                    code(point.value),
                    first_sentence(point.load().__doc__),
                )


PROPERTIES: Final = {
    "command": "Program and arguments, as a list. Required. No shell.",
    "env": "Variables of the process. Names that start with `YAFFLE_` are reserved.",
    "cwd": "Working directory: an absolute path, or one that starts with `{state_dir}`.",
    "port": "A number, or `auto`. Chosen by itself where a text uses `{port}`.",
    "port_range": "Where `auto` looks.",
    "node_ip": "Address for `{node_ip}`.",
    "log_file": "Where output goes; absent: a file in the node's folder.",
    "stop_signal": "What asks the process to end.",
    "stop_timeout": "Seconds until a process that ignores it is killed.",
    "start_timeout": "Seconds that a start may take.",
}


def _properties() -> list[tuple[str, str, str]]:
    defaults = local_process.validate({"command": ["x"]})
    return [
        (code(name), "" if name == "command" else code(_plain(value)), PROPERTIES[name])
        for name, value in defaults.items()
    ]


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)


def _operations() -> list[tuple[str, str, str, str]]:
    return [
        (
            code(name),
            "yes" if spec.in_place else "no",
            "; ".join(
                f"`{key}`: {', '.join(map(str, p.choices))} (default {p.default})"
                for key, p in spec.params.items()
            ),
            spec.description,
        )
        for name, spec in OPERATIONS.items()
    ]
