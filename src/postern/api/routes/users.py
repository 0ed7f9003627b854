"""Users of local login (spec 2.6)."""

from __future__ import annotations

from fastapi import APIRouter, Response

from postern.api.audited import AuditedRoute
from postern.api.auth import Address, Caller, Use
from postern.api.responses import errors
from postern.api.schemas.users import PasswordRequest, StatusAnswer, UserAnswer, UserChange, UserRequest
from postern.domain.secret import Secret

router = APIRouter(prefix="/users", tags=["User Management"], route_class=AuditedRoute)


@router.get("", responses=errors())
async def list_users(caller: Caller, services: Use) -> list[UserAnswer]:
    """All users, for admins and auditors; others find only themselves."""
    return [UserAnswer.of(user) for user in await services.principals.all(caller)]


@router.post("", status_code=201, responses=errors(403, 409, 413))
async def create_user(body: UserRequest, caller: Caller, services: Use) -> UserAnswer:
    return UserAnswer.of(await services.principals.create(caller, body.fields()))


@router.put("/self/password", responses=errors(403, 413, 429))
async def change_password(
    body: PasswordRequest, caller: Caller, services: Use, address: Address, response: Response
) -> StatusAnswer:
    """Ends all one's tokens; the header `Token` has a new one."""
    current, new = Secret(body.current_password), Secret(body.new_password)
    token = await services.principals.change_own_password(caller, current, new, address=address)
    response.headers["Token"] = token.reveal()
    return StatusAnswer()


@router.get("/{emailOrID}", responses=errors(404))
async def get_user(emailOrID: str, caller: Caller, services: Use) -> UserAnswer:  # noqa: N803 - the spec's name
    return UserAnswer.of(await services.principals.get(caller, emailOrID))


@router.put("/{emailOrID}", responses=errors(403, 404, 413))
async def update_user(emailOrID: str, body: UserChange, caller: Caller, services: Use) -> UserAnswer:  # noqa: N803
    """Setting a user inactive also ends their live sessions."""
    return UserAnswer.of(await services.principals.update(caller, emailOrID, body.fields()))
