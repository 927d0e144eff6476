"""What a cloud must hold before anybody can use it: services' users, the catalog, flavors, images."""

from __future__ import annotations

from typing import Any, Final

from lab.openstack.api import Api
from lab.openstack.plan import Plan
from lab.openstack.templates import REGION, SERVICE_PASSWORD

# catalog type -> name, path
SERVICES: Final = {
    "identity": ("keystone", "/v3"),
    "placement": ("placement", ""),
    "image": ("glance", ""),
    "network": ("neutron", ""),
    "compute": ("nova", "/v2.1"),
    "orchestration": ("heat", "/v1/%(tenant_id)s"),
}
USERS: Final = ("nova", "placement", "glance")
# With a disk: who is no administrator may not start servers without one.
FLAVORS: Final = {"lab.tiny": 64, "lab.small": 256}
"""Name and megabytes."""
IMAGES: Final = ("lab-image", "lab-image-2")


def register(api: Api, plan: Plan) -> None:
    """Make users and endpoints; what is there stays, and endpoints of another lab are moved here."""
    known = {user["name"] for user in api.get("identity", "/users")["users"]}
    for user in (*USERS, *(["heat"] if plan.heat else [])):
        if user not in known:
            _service_user(api, user)
    if plan.heat and not api.get("identity", "/domains?name=heat")["domains"]:
        _heat_domain(api)
    services = {s["type"]: s["id"] for s in api.get("identity", "/services")["services"]}
    urls = {
        (e["service_id"], e["interface"]): (e["id"], e["url"])
        for e in api.get("identity", "/endpoints")["endpoints"]
    }
    for kind, (name, path) in SERVICES.items():
        if kind != "orchestration" or plan.heat:
            service = services.get(kind) or _service(api, kind, name)
            for interface in ("public", "internal"):
                there = urls.get((service, interface))
                _endpoint(api, service, interface, plan.url(kind) + path, there)


def furnish(api: Api) -> None:
    """Make flavors and images that are missing."""
    flavors = {flavor["name"] for flavor in api.get("compute", "/flavors")["flavors"]}
    for name, ram in FLAVORS.items():
        if name not in flavors:
            wanted = {"name": name, "ram": ram, "vcpus": 1, "disk": 1}
            api.call("POST", "compute", "/flavors", {"flavor": wanted})
    images = {image["name"] for image in api.get("image", "/images")["images"]}
    for name in IMAGES:
        if name not in images:
            _image(api, name)


def _image(api: Api, name: str) -> None:
    wanted = {
        "name": name,
        "disk_format": "raw",
        "container_format": "bare",
        "visibility": "public",
    }
    made = api.call("POST", "image", "/images", wanted)
    api.call("PUT", "image", f"/images/{made['id']}/file", name.encode() * 64)


def _service_user(api: Api, name: str) -> None:
    project = found_or_made(api, "project", name="service", domain_id="default")
    user = found_or_made(
        api, "user", name=name, domain_id="default", extra={"password": SERVICE_PASSWORD}
    )
    for role in ("admin", "service"):
        grant(api, project=project, user=user, role=role)


def _service(api: Api, kind: str, name: str) -> str:
    wanted = {"name": name, "type": kind}
    return str(api.call("POST", "identity", "/services", {"service": wanted})["service"]["id"])


def enter(api: Api, *, name: str, kind: str, url: str) -> None:
    """Make a service's user and its place in the catalog; what is there stays."""
    _service_user(api, name)
    service = found_or_made(api, "service", name=name, extra={"type": kind})
    there = api.get("identity", f"/endpoints?service_id={service}")["endpoints"]
    known = {found["interface"]: (found["id"], found["url"]) for found in there}
    for interface in ("public", "internal"):
        _endpoint(api, service, interface, url, known.get(interface))


def _endpoint(
    api: Api, service: str, interface: str, url: str, there: tuple[str, str] | None
) -> None:
    wanted = {"service_id": service, "interface": interface, "region_id": REGION, "url": url}
    if there is None:
        api.call("POST", "identity", "/endpoints", {"endpoint": wanted})
    elif there[1] != url:
        api.call("PATCH", "identity", f"/endpoints/{there[0]}", {"endpoint": {"url": url}})


def _heat_domain(api: Api) -> None:
    """Heat keeps the users that it makes for stacks in a domain of its own."""
    for role in ("heat_stack_owner", "heat_stack_user"):
        found_or_made(api, "role", name=role)
    domain = found_or_made(api, "domain", name="heat")
    user = found_or_made(
        api,
        "user",
        name="heat_domain_admin",
        domain_id=domain,
        extra={"password": SERVICE_PASSWORD},
    )
    role = found_or_made(api, "role", name="admin")
    api.call("PUT", "identity", f"/domains/{domain}/users/{user}/roles/{role}")


def grant(api: Api, *, project: str, user: str, role: str) -> None:
    """Give a user a role in a project; a role that does not exist is made."""
    number = found_or_made(api, "role", name=role)
    api.call("PUT", "identity", f"/projects/{project}/users/{user}/roles/{number}")


def found_or_made(
    api: Api, kind: str, *, name: str, domain_id: str = "", extra: dict[str, Any] | None = None
) -> str:
    """Return the id of a project, user, role or domain of that name."""
    where = f"&domain_id={domain_id}" if domain_id else ""
    found = api.get("identity", f"/{kind}s?name={name}{where}")[f"{kind}s"]
    if found:
        return str(found[0]["id"])
    wanted = {"name": name, **({"domain_id": domain_id} if domain_id else {}), **(extra or {})}
    return str(api.call("POST", "identity", f"/{kind}s", {kind: wanted})[kind]["id"])
