"""The login that a request comes by, and one's others."""

from __future__ import annotations

from fastapi import APIRouter, Request

from postern.api.audited import AuditedRoute
from postern.api.auth import CallerInFull, session_token_of
from postern.api.cookies import csrf_token_of
from postern.api.responses import errors
from postern.api.schemas.logins import SessionAnswer

router = APIRouter(tags=["Authentication"], route_class=AuditedRoute)


@router.get("/login/session", responses=errors())
async def login_session(request: Request, caller: CallerInFull) -> SessionAnswer:
    """By what this request is authenticated, and the CSRF token of a browser's session."""
    held, login = session_token_of(request), caller.login
    return SessionAnswer(
        email=caller.principal.email,
        login_id=str(login.id) if login else None,
        expires_at=login.expires_at if login else None,
        ends_at=login.ends_at if login else None,
        csrf_token=csrf_token_of(held) if held else None,
    )
