"""Nova: API, scheduler, conductor, and as many compute hosts as were asked for."""

from __future__ import annotations

from typing import Final

from lab.openstack import templates, wsgi
from lab.openstack.plan import Plan
from lab.openstack.processes import Service

DATABASES: Final = ("nova_api", "nova", "nova_cell0")


def configure(plan: Plan) -> None:
    """Write what all of Nova reads, what those with a database read, and what each host reads."""
    folder = plan.etc / "nova"
    logins = {
        "placement": templates.login(plan, "placement", "placement"),
        "glance": templates.login(plan, "glance", "glance"),
        "neutron": templates.login(plan, "neutron", "nova"),
        "cinder": templates.login(plan, "cinder", "nova"),
        "service_user": templates.login(plan, "service_user", "nova"),
    }
    check = templates.token_check(plan, "nova")
    templates.write(plan, "nova.conf", folder / "nova.conf", token_check=check, **logins)
    # Apart, because nova-compute must not see a database.
    databases = templates.database(plan, "nova")
    databases += templates.database(plan, "nova_api", section="api_database")
    (folder / "nova-databases.conf").write_text(databases)
    templates.copy_shipped(plan, "nova/api-paste.ini", to=folder)
    (plan.data / "nova").mkdir(exist_ok=True)
    for number, host in enumerate(plan.hosts, 1):
        _configure_host(plan, host, number)


def _configure_host(plan: Plan, host: str, number: int) -> None:
    templates.write(plan, "nova-host.conf", plan.etc / "nova" / f"{host}.conf", host=host)
    folder = plan.host_data(host)
    folder.mkdir(exist_ok=True)
    # The host's identity: Nova refuses one whose name is known and whose number is new.
    identity = folder / "compute_id"
    if not identity.exists():
        identity.write_text(f"1ab00000-0000-4000-8000-{number:012d}")


def schema(plan: Plan) -> list[str]:
    """Return the commands that fill its databases.

    The cells are given by templates: their real addresses are read from the configuration, so that
    the databases hold no port and no folder and may be used by another lab.
    """
    words = ["nova.cmd.manage"]
    for command in (
        ["api_db", "sync"],
        ["cell_v2", "map_cell0", "--database_connection", "{scheme}://{username}@/nova_cell0?{query}"],
        [
            "cell_v2", "create_cell", "--name", "cell1",
            "--database_connection", "{scheme}://{username}@/nova?{query}",
            "--transport-url", "{scheme}://{username}:{password}@{hostname}:{port}/",
        ],
        ["db", "sync"],
    ):  # fmt: skip
        words += ["--", *_with_database(plan), *command]
    return words


def services(plan: Plan) -> list[Service]:
    """Return conductor, scheduler, API and hosts."""
    config = _with_database(plan)
    env = {
        "OS_NOVA_CONFIG_DIR": str(plan.etc / "nova"),
        "OS_NOVA_CONFIG_FILES": "api-paste.ini;nova.conf;nova-databases.conf",
    }
    module, log = "nova.wsgi.osapi_compute", plan.log / "nova.log"
    return [
        _daemon(plan, "nova-conductor", "nova.cmd.conductor", config),
        wsgi.service(plan, "nova-api", module, at="compute", threads=6, env=env, log=log),
        _daemon(plan, "nova-scheduler", "nova.cmd.scheduler", config),
        *(host_service(plan, host) for host in plan.hosts),
    ]


def host_service(plan: Plan, host: str) -> Service:
    """Return the process that is a compute host."""
    plan.host_data(host)
    config = [*_without_database(plan), "--config-file", str(plan.etc / "nova" / f"{host}.conf")]
    return _daemon(plan, f"nova-compute-{host}", "nova.cmd.compute", config)


def _daemon(plan: Plan, name: str, module: str, config: list[str]) -> Service:
    log = plan.log / f"{name}.log"
    program = (str(plan.python), str(wsgi.INSIDE / "daemon.py"), module)
    return Service(name=name, command=(*program, *config, "--log-file", str(log)), log=log)


def _without_database(plan: Plan) -> list[str]:
    return ["--config-file", str(plan.etc / "nova" / "nova.conf")]


def _with_database(plan: Plan) -> list[str]:
    databases = str(plan.etc / "nova" / "nova-databases.conf")
    return [*_without_database(plan), "--config-file", databases]
