"""Public keys by which users log in by SSH."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.crud import Key
from postern.api.paging import ListAnswer, Paging, listed
from postern.api.responses import errors
from postern.api.schemas.identity.ssh_schemas import SshKeyAnswer, SshKeyRequest

router = APIRouter(tags=["User Management"], route_class=AuditedRoute)


@router.get("/sshkeys", responses=errors())
async def list_ssh_keys(caller: Caller, services: Use, page: Paging) -> ListAnswer[SshKeyAnswer]:
    """One's own, by name."""
    found = await services.ssh_keys.own(caller, page)
    return listed([SshKeyAnswer.of(one) for one in found.items], found, page)


@router.post("/sshkeys", status_code=201, responses=errors(403, 409, 413))
async def add_ssh_key(body: SshKeyRequest, caller: Caller, services: Use) -> SshKeyAnswer:
    """For oneself, by people only. Taken are Ed25519, ECDSA, RSA of 2048 bits and more, and both kinds that live in a
    security key; never a private key. A key belongs to one user of an organisation."""
    return SshKeyAnswer.of(await services.ssh_keys.add(caller, body.name, body.public_key))


@router.delete("/sshkeys/{id}", status_code=204, responses=errors(404))
async def remove_ssh_key(id: str, caller: Caller, services: Use) -> None:  # noqa: A002 - the name in the path
    """One's own; administrators remove anybody's. What runs by it ends at once."""
    await services.ssh_keys.remove(caller, id)


@router.get("/users/{nameOrID}/sshkeys", responses=errors(403, 404))
async def list_ssh_keys_of(key: Key, caller: Caller, services: Use, page: Paging) -> ListAnswer[SshKeyAnswer]:
    """A user's, by name, for administrators and auditors."""
    found = await services.ssh_keys.of_user(caller, key, page)
    return listed([SshKeyAnswer.of(one) for one in found.items], found, page)
