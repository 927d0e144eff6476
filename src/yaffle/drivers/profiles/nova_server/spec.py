"""The properties of a server: what a user may write in Senlin's words, every fault named."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Callable, Mapping
from typing import Final

from yaffle.drivers.profiles.nova_server.tracking.ownership_tags import OURS
from yaffle.errors import InvalidSpec

NETWORK_WORDS: Final = ("auto", "none")
NETWORK_KEYS: Final = ("network", "port", "fixed_ip")
SENLINS_NETWORK_KEYS: Final = (
    "floating_ip",
    "floating_network",
    "security_groups",
    "subnet",
    "vnic_type",
)
BLOCK_DEVICE_KEYS: Final = (
    "boot_index",
    "delete_on_termination",
    "destination_type",
    "device_name",
    "device_type",
    "disk_bus",
    "guest_format",
    "source_type",
    "uuid",
    "volume_size",
    "volume_type",
)
_NAME_MAX: Final = 255
_USER_DATA_MAX: Final = 65_535
_PERSONALITY_MAX: Final = 5


def validate(given: Mapping[str, object]) -> Mapping[str, object]:
    """Return the properties with defaults filled in; raise InvalidSpec naming every fault."""
    known = ", ".join(PARSERS)
    faults = [f"{name}: unknown property; known: {known}" for name in given if name not in PARSERS]
    values: dict[str, object] = {}
    for name, parser in PARSERS.items():
        value = given.get(name, DEFAULTS.get(name))
        if value is None:
            continue
        try:
            values[name] = parser(value)
        except InvalidSpec as error:
            faults += [_placed(name, problem) for problem in error.problems]
    faults += [f"{name}: is required" for name in REQUIRED if given.get(name) is None]
    if not given.get("image") and not given.get("block_device_mapping_v2"):
        faults.append("image: is required where block_device_mapping_v2 names nothing to boot from")
    if faults:
        raise InvalidSpec(faults)
    return values


def encoded_user_data(text: str) -> str:
    """Return user data as Nova wants it."""
    return base64.b64encode(text.encode()).decode()


def _placed(name: str, problem: str) -> str:
    return f"{name}{problem}" if problem.startswith(("[", ".")) else f"{name}: {problem}"


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise InvalidSpec(f"must be a non-empty text, not {value!r}")
    if len(value) > _NAME_MAX:
        raise InvalidSpec(f"may have {_NAME_MAX} characters, and has {len(value)}")
    return value


def _flag(value: object) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise InvalidSpec(f"must be true or false, not {value!r}")
    return value


def _map(value: object) -> dict[str, object]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidSpec("must map names to values")
    return dict(value)


def _each(value: object, parser: Callable[[object], object], what: str) -> list[object]:
    """Parse a list; every fault of every item is named with its place."""
    if not isinstance(value, list | tuple):
        raise InvalidSpec(f"must be a list of {what}")
    found: list[object] = []
    faults: list[str] = []
    for place, item in enumerate(value):
        try:
            found.append(parser(item))
        except InvalidSpec as error:
            faults += [_placed(f"[{place}]", problem) for problem in error.problems]
    if faults:
        raise InvalidSpec(faults)
    return found


def _context(value: object) -> dict[str, object]:
    if _map(value):
        raise InvalidSpec("is not supported: the region is that of the cloud in the settings")
    return {}


def _metadata(value: object) -> dict[str, object]:
    faults: list[str] = []
    found: dict[str, object] = {}
    for key, content in _map(value).items():
        if key in OURS or key.startswith("yaffle_"):
            faults.append(f".{key}: is written by Yaffle itself; choose another name")
        elif isinstance(content, bool) or not isinstance(content, str | int | float):
            faults.append(f".{key}: must be a text or a number, not {content!r}")
        elif not key or len(key) > _NAME_MAX or len(str(content)) > _NAME_MAX:
            faults.append(f".{key}: name and value may have {_NAME_MAX} characters each")
        else:
            found[key] = str(content)
    if faults:
        raise InvalidSpec(faults)
    return found


def _networks(value: object) -> object:
    if isinstance(value, str):
        if value not in NETWORK_WORDS:
            raise InvalidSpec(f'must be "auto", "none" or a list of networks, not {value!r}')
        return value
    return _each(value, _network, "networks") or "auto"


def _network(value: object) -> dict[str, object]:
    given = {key: item for key, item in _map(value).items() if item is not None}
    faults: list[str] = []
    for key, item in given.items():
        if key in SENLINS_NETWORK_KEYS:
            faults.append(f".{key}: is not supported; make a port that has it, and give `port`")
        elif key not in NETWORK_KEYS:
            faults.append(f".{key}: unknown; known: {', '.join(NETWORK_KEYS)}")
        elif key == "fixed_ip" and not _is_address(item):
            faults.append(f".fixed_ip: must be an IP address, not {item!r}")
        elif not isinstance(item, str) or not item:
            faults.append(f".{key}: must be a non-empty text, not {item!r}")
    if ("network" in given) == ("port" in given):
        faults.append("needs exactly one of network and port")
    if "port" in given and "fixed_ip" in given:
        faults.append(".fixed_ip: belongs to a network; a port has its own address")
    if faults:
        raise InvalidSpec(faults)
    return given


def _is_address(value: object) -> bool:
    try:
        ipaddress.ip_address(str(value))
    except ValueError:
        return False
    return True


def _block_device(value: object) -> dict[str, object]:
    given = {key: item for key, item in _map(value).items() if item is not None}
    known = ", ".join(BLOCK_DEVICE_KEYS)
    faults = [f".{k}: unknown; known: {known}" for k in given if k not in BLOCK_DEVICE_KEYS]
    if "boot_index" in given and not isinstance(given["boot_index"], int):
        faults.append(f".boot_index: must be a whole number, not {given['boot_index']!r}")
    if faults:
        raise InvalidSpec(faults)
    return given


def _file(value: object) -> dict[str, object]:
    given = _map(value)
    path, contents = given.get("path"), given.get("contents")
    if set(given) != {"path", "contents"} or not isinstance(path, str) or not path:
        raise InvalidSpec("needs path and contents, and nothing else")
    if not isinstance(contents, str):
        raise InvalidSpec(".contents: must be a text")
    return {"path": path, "contents": contents}


def _personality(value: object) -> list[object]:
    files = _each(value, _file, "files")
    if len(files) > _PERSONALITY_MAX:
        raise InvalidSpec(f"may have {_PERSONALITY_MAX} files, and has {len(files)}")
    return files


def _user_data(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidSpec("must be a text")
    if len(encoded_user_data(value)) > _USER_DATA_MAX:
        raise InvalidSpec(f"may have {_USER_DATA_MAX} bytes once it is encoded")
    return value


REQUIRED: Final = ("flavor",)
DEFAULTS: Final[Mapping[str, object]] = {"auto_disk_config": True, "networks": "auto"}
PARSERS: Final[Mapping[str, Callable[[object], object]]] = {
    "context": _context,
    "admin_pass": _text,
    "auto_disk_config": _flag,
    "availability_zone": _text,
    "block_device_mapping_v2": lambda v: _each(v, _block_device, "block devices"),
    "config_drive": _flag,
    "flavor": _text,
    "image": _text,
    "key_name": _text,
    "metadata": _metadata,
    "name": _text,
    "networks": _networks,
    "personality": _personality,
    "scheduler_hints": _map,
    "security_groups": lambda v: _each(v, _text, "names"),
    "user_data": _user_data,
}
