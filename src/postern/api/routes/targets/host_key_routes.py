"""The host keys of SSH targets."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.paging import ListAnswer, Paging, make_list_answer
from postern.api.responses import errors
from postern.api.schemas.identity.ssh_schemas import HostKeyAnswer
from postern.domain.lists import Listed

router = APIRouter(prefix="/connections/{nameOrID}/hostkeys", tags=["Connections"], route_class=AuditedRoute)

Key = Annotated[str, Path(alias="nameOrID", description="Name or identifier")]


@router.get("", responses=errors(403, 404))
async def list_host_keys(key: Key, caller: Caller, services: Use, page: Paging) -> ListAnswer[HostKeyAnswer]:
    """Return the pinned host key of the connection's present address: the first one seen, or none yet. For
    administrators and auditors."""
    connection, found = await services.host_keys.find(caller, key)
    shown = [HostKeyAnswer.of(one, connection.name) for one in found[page.offset : page.offset + page.limit]]
    return make_list_answer(shown, Listed(shown, len(found)), page)


@router.delete("", status_code=204, responses=errors(403, 404))
async def forget_host_keys(key: Key, caller: Caller, services: Use) -> None:
    """Forget the pinned key; the next one seen is pinned. For administrators. Use it only if the target
    was reinstalled."""
    await services.host_keys.forget(caller, key)
