"""Users (spec 2.6)."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from pydantic import JsonValue

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Facts, Use
from postern.api.browser.token_delivery import RenewsToken
from postern.api.crud import ResourceRoutes, Version, etag_of
from postern.api.paging import ListAnswer, Paging, make_list_answer
from postern.api.responses import errors
from postern.api.schemas.common import storable
from postern.api.schemas.identity.local_auth_schemas import LoginAnswer
from postern.api.schemas.identity.user_schemas import PasswordRequest, UserAnswer, UserChange, UserRequest
from postern.domain.identity.preferences import Preferences
from postern.domain.identity.principal import PrincipalFilter, PrincipalStatus
from postern.domain.secret import Secret
from postern.errors import Invalid

router = APIRouter(prefix="/users", tags=["User Management"], route_class=AuditedRoute)


async def filter_of(
    name: Annotated[str | None, Query(max_length=320, description="Exactly this name or e-mail address")] = None,
    search: Annotated[
        str | None, Query(max_length=320, description="Part of the name or e-mail address, ignoring case")
    ] = None,
    group: Annotated[str | None, Query(max_length=128, description="Members of this group, by its exact name")] = None,
    status: Annotated[PrincipalStatus | None, Query()] = None,
) -> PrincipalFilter:
    return PrincipalFilter(called=name, search=search, group=group, status=status)


async def list_users(
    caller: Caller, services: Use, page: Paging, principal_filter: Annotated[PrincipalFilter, Depends(filter_of)]
) -> ListAnswer[UserAnswer]:
    listed = await services.users.search(caller, principal_filter, page)
    return make_list_answer([UserAnswer.of(account) for account in listed.items], listed, page)


@router.put("/self/password", response_model_exclude_none=True, responses=errors(403, 413, 429))
async def change_password(
    body: PasswordRequest, caller: Caller, services: Use, facts: Facts, delivery: RenewsToken
) -> LoginAnswer:
    """Change the caller's password. All their logins end; the header `Token`, or the session's cookie, has
    a new token."""
    current, new = Secret(body.current_password), Secret(body.new_password)
    opened = await services.local_login.change_password(caller, current, new, delivery.client(facts))
    return LoginAnswer(csrf_token=delivery.deliver(opened))


@router.get("/self/preferences", responses=errors())
async def get_preferences(caller: Caller, services: Use, response: Response) -> dict[str, JsonValue]:
    """Return what the caller's clients remember for them: a JSON object of their own making, empty at first."""
    return _render_preferences(await services.preferences.get(caller), response)


@router.put("/self/preferences", responses=errors(412, 413))
async def put_preferences(
    body: dict[str, JsonValue], caller: Caller, services: Use, response: Response, version: Version
) -> dict[str, JsonValue]:
    """Replace the caller's preferences: at most 64 KiB of JSON. Put no secrets there. The ETag of a user without
    preferences is `"0"`."""
    if not storable(body):
        raise Invalid("preferences: a text contains a NUL character or half of a surrogate pair")
    return _render_preferences(await services.preferences.put(caller, body, version), response)


def _render_preferences(preferences: Preferences, response: Response) -> dict[str, JsonValue]:
    response.headers["ETag"] = etag_of(preferences.version)
    content: dict[str, JsonValue] = json.loads(preferences.content)
    return content


ResourceRoutes(
    path="",
    names=("user", "users"),
    service=lambda services: services.users,
    request=UserRequest,
    change=UserChange,
    answer=UserAnswer,
    texts={
        "list": "By e-mail address. Administrators and auditors see all users, others only themselves.",
        "create": "A user without a password is invited.",
        "update": "Making a user inactive also ends their running sessions.",
        "delete": "Logins, keys, credentials and running sessions end. 422 for the caller, and for the last active "
        "administrator.",
    },
    own={"list": list_users},
    name_field="email",
).add_to(router)
