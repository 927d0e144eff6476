"""Answers of `crm_mon` and `cibadmin` in the shapes that Pacemaker 2.1 gives them."""

from __future__ import annotations

YES = "true"


def remote(name: str, **said: str) -> str:
    facts = {"online": YES, "maintenance": "false", "pending": "false", "unclean": "false"} | said
    return f'<node name="{name}" id="{name}" {_attributes(facts)} type="remote"/>'


def member(name: str, **said: str) -> str:
    facts = {"online": YES, "maintenance": "false", "pending": "false", "unclean": "false"} | said
    return f'<node name="{name}" id="1" {_attributes(facts)} type="member"/>'


def connection(name: str, role: str = "Started", **said: str) -> str:
    facts = {"role": role, "managed": YES} | said
    return f'<resource id="{name}" resource_agent="ocf:pacemaker:remote" {_attributes(facts)}/>'


def fenced(target: str, completed: str = "2026-11-29 07:42:04Z", **said: str) -> str:
    facts = {"action": "reboot", "client": "pacemaker-controld.52", "origin": "c1"}
    facts |= {"status": "success", "delegate": "c1"} | said
    return f'<fence_event target="{target}" completed="{completed}" {_attributes(facts)}/>'


def status(
    *parts: str,
    coordinator: str = 'present="true" with_quorum="true"',
    options: str = 'stonith-enabled="true" maintenance-mode="false" stop-all-resources="false"',
    history: str = "",
    end: str = '<status code="0" message="OK"/>',
) -> str:
    nodes = "".join(part for part in parts if part.startswith("<node "))
    resources = "".join(part for part in parts if part.startswith("<resource "))
    events = "".join(part for part in parts if part.startswith("<fence_event "))
    fencings = f"<fence_history{history}>{events}</fence_history>" if events or history else ""
    return (
        f"<pacemaker-result><summary><current_dc {coordinator}/><cluster_options {options}/></summary>"
        f"<nodes>{nodes}</nodes><resources>{resources}</resources>{fencings}{end}</pacemaker-result>"
    )


def membership(*, fenced: str = "0", **joined: str) -> str:
    """Return `node_state` by node name: what `in_ccm` says; `fenced`: when, or 0."""
    states = "".join(
        f'<node_state remote_node="true" uname="{name}" in_ccm="{said}" node_fenced="{fenced}"/>'
        for name, said in joined.items()
    )
    return f"<xpath-query>{states}</xpath-query>"


def _attributes(facts: dict[str, str]) -> str:
    return " ".join(f'{name}="{value}"' for name, value in facts.items())
