"""The caller (spec 4.7)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, CallerInFull, Use, services_of
from postern.api.responses import errors
from postern.api.schemas.identity.user_schemas import UserAnswer, UserInfoAnswer

router = APIRouter(route_class=AuditedRoute)


async def _changes_position(request: Request) -> str:
    return services_of(request).changes.position()


# A parameter before the caller: read before anything of the answer, so that no change is lost between the two.
ChangesPosition = Annotated[str, Depends(_changes_position)]


@router.get("/userinfo", tags=["User Management"], responses=errors())
async def user_info(
    changes_position: ChangesPosition, caller: Caller, by: CallerInFull, services: Use
) -> UserInfoAnswer:
    """Return the caller's account and organisation, and how they are authenticated."""
    profile = await services.users.profile(caller)
    return UserInfoAnswer(
        **UserAnswer.of(profile.account).model_dump(),
        org_id=str(caller.org_id),
        org_name=profile.organisation.name,
        tenancy_type="selfhosted" if profile.alone else "multitenant",
        is_multitenant=not profile.alone,
        is_admin=caller.is_admin,
        kind=caller.kind,
        login_method=by.login.method if by.login else None,
        login_expires_at=by.login.expires_at if by.login else None,
        api_key=by.api_key.name if by.api_key else None,
        changes_position=changes_position,
    )
