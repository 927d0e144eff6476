"""Deletes a superseded trust in Keystone: how, and in whose name.

    by its user      with the token that made the newer one, or of the user's next change
    by itself        with a token that Keystone gives us for the trust: it says that we are that user

So one that nobody comes back for lasts no longer than it is worth anything: where Keystone gives no
token for it any more (its user is disabled, or has lost a role) nobody can act by it either, and once
it gives one again, the trust is deleted with that one. (Keystone 27: keystone/api/trusts.py,
`_check_delegated_token`, which lets tokens of trusts manage trusts.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.errors import NotFound, YaffleError
from yaffle.integrations.openstack import Cloud, CloudsYaml, ForProject
from yaffle.model.credentials import Credential, CredentialKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaffle.integrations.openstack import Client
    from yaffle.ports import Clock
    from yaffle.store.credentials import CredentialRow

CALL_S: Final = 15.0


async def by_its_user(cloud: Cloud, token: str, reference: str) -> str:
    """Delete a trust with its user's token; return why it is still there, empty where it is not."""
    return await _gone(
        cloud, lambda client: client.keystone("DELETE", _path(reference), token=token)
    )


async def by_itself(cloud: Cloud, row: CredentialRow, clock: Clock) -> str:
    """Delete a trust with a token that is given for it; return why it is still there.

    Empty where it is not: whether it is there is asked by our own name first, since whoever asks for
    a token for a trust that was deleted is told no more than whoever is refused one.
    """
    reference, at = row.reference, cloud.credentials
    if not isinstance(at, CloudsYaml):
        return f"cloud {row.cloud} is not of a clouds.yaml, which says who we are"
    there: list[str] = []

    def look(client: Client) -> None:
        client.keystone("GET", _path(reference), token=client.token)
        there.append(reference)

    why = await _gone(cloud, look)
    if not why and not there:
        return ""
    # A service user that is of no project may not look; whether it may delete is another question.
    trust = Credential(
        id=row.id,
        cloud=row.cloud,
        project=row.project,
        user=row.user,
        kind=CredentialKind.TRUST,
        reference=reference,
        secret="",
    )
    through = Cloud(ForProject(at=at, credential=trust), clock, threads=1)
    try:
        return await _gone(
            through, lambda client: client.keystone("DELETE", _path(reference), token=client.token)
        )
    finally:
        through.close()


def _path(reference: str) -> str:
    return f"/OS-TRUST/trusts/{reference}"


async def _gone(cloud: Cloud, work: Callable[[Client], object]) -> str:
    """Return why a trust is still there after `work`; empty where it is not."""
    try:
        await cloud.call(work, CALL_S)
    except NotFound:
        return ""
    except TimeoutError:
        return f"no answer of Keystone within {CALL_S:g} s"
    except YaffleError as error:
        return str(error)
    return ""
