"""Attribution of a stack's state: Heat keeps no record of who asked, Nova keeps one.

Heat deletes no stack by itself: one that is deleted was asked to be. It does so with the token of
whoever asked, so that Nova's record of the servers that went with the stack bears that user. Of a
stack that held no server nobody can tell who it was, and then nobody is believed to have wished it.

A stack whose members failed was wished so only where a user has stopped or deleted each of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.heat_stack.operations.delete import servers_ever
from yaffle.drivers.profiles.heat_stack.status.members import CHECK_FAILED, Member, State, of_state
from yaffle.errors import Forbidden, NotFound
from yaffle.integrations.openstack import CloudUnavailable
from yaffle.integrations.openstack.servers.action_attribution import (
    GONE,
    newest_of,
    told_of,
    traced,
)
from yaffle.model.operations import Actor, Cause

if TYPE_CHECKING:
    from yaffle.drivers.profiles.heat_stack.api.documents import Stack
    from yaffle.drivers.profiles.heat_stack.api.heat import Heat
    from yaffle.drivers.profiles.heat_stack.status.reading import Reader
    from yaffle.integrations.openstack.servers.documents import Action
    from yaffle.integrations.openstack.servers.queries import Servers
    from yaffle.model.operations import Target

ASKED_MAX: Final = 25
"""Servers whose record is read for one stack."""
_SECONDS: Final = len("2026-11-21T06:50:38")


def cause(heat: Heat, servers: Servers, reader: Reader, target: Target) -> Cause:
    """Return who it was; reads only. What cannot be asked now is raised: it may be asked later."""
    try:
        return _cause(heat, servers, reader, target)
    except NotFound as error:
        raise CloudUnavailable(f"it has just been changed: {error}", sent=False) from error
    except Forbidden as error:
        return _unknown(str(error))


def _cause(heat: Heat, servers: Servers, reader: Reader, target: Target) -> Cause:
    ident = target.physical_id
    stack = heat.show(ident) if ident else None
    if stack is None:
        why = f"Heat has no record of stack {ident}" if ident else "there never was one"
        return _unknown(why, keeps=False)
    us = heat.client.user_id
    if stack.action == "DELETE":
        return _of_deletion(heat, servers, stack, us)
    members = [] if stack.busy else reader.members(stack)
    failed = of_state(members, State.FAILED)
    told = _of_members(servers, failed, us) if failed else None
    unread = [m.words for m in members if m.seen is not None and not m.seen.asked]
    if unread and (told is None or told.actor is not Actor.NOBODY):
        # One of those may be what has failed, or have been stopped by somebody.
        return unasked(f"what was not answered: {unread[0]}")
    return told or Cause(
        actor=Actor.NOBODY, detail=f"nobody asked for that ({stack.words})", keeps=False
    )


def _of_deletion(heat: Heat, servers: Servers, stack: Stack, us: str) -> Cause:
    for ident in servers_ever(heat, stack)[:ASKED_MAX]:
        act = newest_of(servers.acts(ident) or ())
        if act is None or act.user_id is None or not _went_with(act, stack):
            continue
        told = f"server {ident} of it: {told_of(act)}"
        if act.user_id == us:
            # Ours in an earlier life, or a person with our credentials.
            return _unknown(f"{told}, with our own credentials", keeps=False)
        detail = f"{told}, requested by user {act.user_id}"
        return Cause(actor=Actor.USER, detail=detail, keeps=False)
    who = "somebody asked Heat to delete it; who, neither Heat nor Nova can tell"
    return _unknown(who, keeps=False)


def _went_with(act: Action, stack: Stack) -> bool:
    """Whether a server was deleted with its stack; one that Heat had replaced before went earlier."""
    return act.action == GONE and act.start_time[:_SECONDS] >= (stack.updated or "")[:_SECONDS]


def _of_members(servers: Servers, members: list[Member], us: str) -> Cause:
    """Return the worst: a member of which nobody wished it, then one of which that is not known."""
    found = [_of_member(servers, member, us) for member in members[:ASKED_MAX]]
    if len(members) > ASKED_MAX:
        found.append(_unknown(f"{len(members) - ASKED_MAX} more were not asked for"))
    keeps = any(one.keeps for one in found)
    for actor in (Actor.NOBODY, Actor.UNKNOWN):
        if told := [one.detail for one in found if one.actor is actor]:
            return Cause(actor=actor, detail=told[0], keeps=keeps)
    detail = "; ".join(one.detail for one in found[:2])
    return Cause(actor=Actor.USER, detail=detail, keeps=keeps)


def _of_member(servers: Servers, member: Member, us: str) -> Cause:
    ident, name = member.resource.physical_id or "", member.resource.shown
    if member.seen is None or member.resource.status == CHECK_FAILED:
        # Never made, or marked by somebody who wants it replaced.
        return Cause(actor=Actor.NOBODY, detail=f"{name}: nobody asked for that ({member.why})")
    acts = servers.acts(ident)
    if acts is None:
        return _unknown(f"{name}: Nova tells nothing of what was done to server {ident}")
    told = traced(servers.show(ident), acts, us=us, ours=lambda _: False)
    return replace(told, detail=f"{name}: {told.detail}")


def unasked(why: str) -> Cause:
    """Return the cause of what Heat, or Nova, did not say."""
    return Cause(actor=Actor.UNASKED, detail=f"who asked for that could not be found out: {why}")


def _unknown(detail: str, *, keeps: bool = True) -> Cause:
    return Cause(actor=Actor.UNKNOWN, detail=detail, keeps=keeps)
