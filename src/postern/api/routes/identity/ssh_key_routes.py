"""Public keys with which users log in by SSH."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.crud import Key
from postern.api.paging import ListAnswer, Paging, make_list_answer
from postern.api.responses import errors
from postern.api.rule_filter_query import NameFilter
from postern.api.schemas.identity.ssh_schemas import SshKeyAnswer, SshKeyRequest

KeyName = Annotated[str, Path(alias="nameOrID", description="Name, fingerprint or identifier")]
Whose = Annotated[str | None, Query(description="Owner of the key, by subject or e-mail address")]

router = APIRouter(tags=["User Management"], route_class=AuditedRoute)


@router.get("/sshkeys", responses=errors())
async def list_ssh_keys(caller: Caller, services: Use, page: Paging, where: NameFilter) -> ListAnswer[SshKeyAnswer]:
    """List the caller's keys, by name."""
    listed = await services.ssh_keys.list_page(caller, page, where)
    return make_list_answer([SshKeyAnswer.of(item) for item in listed.items], listed, page)


@router.post("/sshkeys", status_code=201, responses=errors(403, 409, 413))
async def add_ssh_key(body: SshKeyRequest, caller: Caller, services: Use) -> SshKeyAnswer:
    """Add a key to the caller, who must be a logged-in user. Accepted are Ed25519, ECDSA, RSA with at least 2048 bits,
    and both kinds on security keys; never a private key. A key belongs to one user of an organisation."""
    return SshKeyAnswer.of(await services.ssh_keys.add(caller, body.name, body.public_key))


@router.get("/sshkeys/{nameOrID:path}", responses=errors(403, 404))
async def get_ssh_key(key: KeyName, caller: Caller, services: Use, user: Whose = None) -> SshKeyAnswer:
    """Return a key of the caller; administrators and auditors can read any."""
    return SshKeyAnswer.of(await services.ssh_keys.get(caller, key, user))


@router.delete("/sshkeys/{nameOrID:path}", status_code=204, responses=errors(403, 404))
async def remove_ssh_key(key: KeyName, caller: Caller, services: Use, user: Whose = None) -> None:
    """Delete a key of the caller; administrators can delete any. Sessions that use it end at once."""
    await services.ssh_keys.remove(caller, key, user)


@router.get("/users/{nameOrID}/sshkeys", responses=errors(403, 404))
async def list_ssh_keys_of(
    user: Key, caller: Caller, services: Use, page: Paging, where: NameFilter
) -> ListAnswer[SshKeyAnswer]:
    """List a user's keys, by name, for administrators and auditors."""
    listed = await services.ssh_keys.list_page(caller, page, where, user)
    return make_list_answer([SshKeyAnswer.of(item) for item in listed.items], listed, page)
