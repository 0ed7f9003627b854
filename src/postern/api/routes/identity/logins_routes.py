"""The login of a request, the user's other logins, and the keys of their tokens."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import (
    Address,
    Caller,
    CallerInFull,
    EnrollingCaller,
    Use,
    session_token_of,
)
from postern.api.browser.cookies import clear_login_cookie, csrf_token_of
from postern.api.browser.token_delivery import RenewsToken
from postern.api.crud import Key
from postern.api.info import Info
from postern.api.paging import ListAnswer, Paging, make_list_answer
from postern.api.responses import errors
from postern.api.schemas.identity.local_auth_schemas import StepUpAnswer, StepUpChallengeAnswer, StepUpRequest
from postern.api.schemas.identity.logins_schemas import EndedAnswer, LoginSessionAnswer, LoginShown, RotateRequest
from postern.api.schemas.identity.user_schemas import StatusAnswer

router = APIRouter(tags=["Authentication"], route_class=AuditedRoute)


@router.get("/login/session", responses=errors())
async def login_session(request: Request, caller: EnrollingCaller) -> LoginSessionAnswer:
    """Return how this request is authenticated, and the CSRF token of a browser's session."""
    secret = session_token_of(request)
    return LoginSessionAnswer.of(caller, csrf_token_of(secret) if secret else None, caller.login)


@router.post("/login/refresh", responses=errors())
async def refresh_login(caller: CallerInFull, services: Use, delivery: RenewsToken) -> LoginSessionAnswer:
    """Return a token that is valid for longer, in the header `Token` or in the session's cookie, until the login itself
    ends."""
    opened = await services.own_logins.refresh(caller)
    return LoginSessionAnswer.of(caller, delivery.deliver(opened), opened.login)


@router.post("/login/step-up/challenge", status_code=201, responses=errors(413))
async def begin_step_up(caller: CallerInFull, services: Use) -> StepUpChallengeAnswer:
    """Return what the caller has to prove for `POST /login/step-up`. 403 for users of an identity provider, who log in
    there again, and for API keys."""
    return StepUpChallengeAnswer.of(await services.step_up.begin(caller))


@router.post("/login/step-up", responses=errors(413, 429))
async def step_up(body: StepUpRequest, caller: CallerInFull, services: Use, address: Address) -> StepUpAnswer:
    """Prove again who you are: by a second factor, or by the password of an account without one. The login then counts
    as fresh for ten minutes, as it does after logging in. Connections can require that for the web terminal
    (`access_fresh_factor`)."""
    login = await services.step_up.confirm(caller, body.proof(), address)
    assert login.fresh_until is not None
    return StepUpAnswer(fresh_until=login.fresh_until)


@router.post("/logout", status_code=204, responses=errors())
async def logout(request: Request, caller: EnrollingCaller, services: Use, info: Info, response: Response) -> None:
    """End the login of this request, at once and everywhere, and clear the session's cookie."""
    await services.own_logins.end_this(caller)
    if session_token_of(request) is not None:
        clear_login_cookie(response, info)
        response.headers["Clear-Site-Data"] = '"cache", "storage"'


@router.get("/logins", responses=errors())
async def list_logins(caller: CallerInFull, services: Use, page: Paging) -> ListAnswer[LoginShown]:
    """List the caller's active logins, newest first."""
    listed = await services.own_logins.live(caller.principal, page)
    return make_list_answer([LoginShown.of(login, caller) for login in listed.items], listed, page)


@router.delete("/logins", responses=errors())
async def end_logins(
    request: Request,
    caller: CallerInFull,
    services: Use,
    info: Info,
    response: Response,
    keep_current: Annotated[bool, Query(description="Keep the login of this request")] = False,
) -> EndedAnswer:
    """End all logins of the caller, at once and everywhere, also pending ones, such as an approved device."""
    ended = await services.own_logins.end_all(caller, keep_current=keep_current)
    if session_token_of(request) is not None and not keep_current:
        clear_login_cookie(response, info)
    return EndedAnswer(ended=ended)


@router.delete("/logins/{login_id}", status_code=204, responses=errors(404))
async def end_login(login_id: UUID, caller: Caller, services: Use) -> None:
    """End a login of the caller; administrators can end any. A login that has ended is not an error."""
    await services.logins.end(caller, login_id)


@router.get("/users/{nameOrID}/logins", responses=errors(404))
async def list_logins_of(key: Key, caller: CallerInFull, services: Use, page: Paging) -> ListAnswer[LoginShown]:
    """List a user's active logins, for administrators and auditors."""
    listed = await services.own_logins.live_of(caller.principal, key, page)
    return make_list_answer([LoginShown.of(login, caller) for login in listed.items], listed, page)


@router.delete("/users/{nameOrID}/logins", responses=errors(404))
async def end_logins_of(key: Key, caller: Caller, services: Use) -> EndedAnswer:
    """End all logins of a user, at once and everywhere. For administrators."""
    return EndedAnswer(ended=await services.own_logins.end_all_of(caller, key))


@router.post("/serverconfig/token-keys/rotate", responses=errors(413))
async def rotate_token_keys(body: RotateRequest, caller: Caller, services: Use) -> StatusAnswer:
    """Sign tokens with a new key from now on. With `revoke`, all users must log in again. For administrators of the
    default organisation."""
    await services.own_logins.rotate_keys(caller, revoke=body.revoke)
    return StatusAnswer()
