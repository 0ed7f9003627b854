"""Every write of the API adds an entry to the audit log, also a denied one.

Requests of unauthenticated callers do not, so that a stranger cannot fill the disk; attempts to log in do, and they are
throttled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response

from postern.api import idempotent_requests
from postern.api.authentication_of_requests import address_of, needs_caller, services_of
from postern.api.error_answers import response_of, status_of
from postern.api.responses import errors
from postern.api.route import Route
from postern.domain.identity.principal import Principal
from postern.services.identity.logins.authentication import FEDERATION, Caller
from postern.services.server.audit_context import AuditContext, collect_change

_ACTIONS = {"POST": "create", "PUT": "update", "PATCH": "update", "DELETE": "delete"}
_NAMED = {
    *("login", "second-factor", "setup", "logout", "refresh", "confirm", "setup-link"),
    *("step-up", "challenge"),
    *("revoke", "kill", "reactivate", "rotate", "key", "drain", "purge", "test", "withdraw", "exec", "run"),
    "proof",
}  # last parts of a path that name the action
_CALLED = {"key": "renew-key", "proof": "verify"}  # the action of a method, unless the path names it
_IN_PATH = (
    *("nameOrID", "connection", "name", "session_id", "id"),
    *("credential_id", "factor_id", "login_id"),
)

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class AuditedRoute(Route):
    """Route that writes the entry after the action and before the answer: no write is answered that is not
    in the log."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """An authenticated write can carry an `Idempotency-Key`."""
        if set(options.get("methods") or ()) & set(_ACTIONS) and needs_caller(endpoint):
            dependencies = list(options.get("dependencies") or ())
            if not idempotent_requests.is_kept(dependencies):
                options["dependencies"] = [*dependencies, idempotent_requests.BEGIN]
                options["responses"] = {**errors(409, 429), **(options.get("responses") or {})}
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        if not set(self.methods or ()) & set(_ACTIONS):
            return handle

        async def audit_request(request: Request) -> Response:
            with collect_change(address_of(request)) as audit_context:
                try:
                    response = await handle(request)
                except idempotent_requests.ReplayAnswer as replay:  # nothing was done, so there is no entry
                    return replay.response()
                except Exception as error:
                    await _record(request, self.path_format, status_of(error), audit_context)
                    await idempotent_requests.end(request, await response_of(request, error))
                    raise
                await _record(request, self.path_format, response.status_code, audit_context)
                await idempotent_requests.end(request, response)
                return response

        return audit_request


async def _record(request: Request, route: str, status: int, audit_context: AuditContext) -> None:
    actor = getattr(request.state, "principal", None)
    if actor is None and not (route.endswith("/login") and status in (200, 401)):
        return
    parts = [part for part in route.split("/") if part and part != "api" and not part.startswith("{")]
    body = await _body(request)
    path_params = request.path_params
    email = body.get("email", getattr(request.state, "claimed", None))
    organisation = body.get("organization", getattr(request.state, "organisation", None))
    resource = next(
        (str(path_params[key]) for key in reversed(_IN_PATH) if key in path_params), str(body.get("name", ""))
    )
    is_private = parts[-1] == "preferences"  # the user's own notes, of no interest to auditors
    body = {name: value for name, value in body.items() if not (is_private or name.startswith(f"{FEDERATION}_"))}
    await services_of(request).audit.record(
        actor,
        claimed=email if isinstance(email, str) else "",
        organisation=organisation if isinstance(organisation, str) else None,
        action=_CALLED.get(parts[-1], parts[-1]) if parts[-1] in _NAMED else _ACTIONS[request.method],
        resource_type="/".join(part for part in parts if part not in _NAMED) or "logins",
        resource=resource,
        method=request.method,
        path=request.url.path,
        status=status,
        source=address_of(request),
        request_id=request.state.request_id,
        body={**body, **_program_of(request)},
        audit_context=audit_context,
    )


def _program_of(request: Request) -> dict[str, str]:
    """Return which program made the request, if it logged in by a federation rule."""
    caller: Caller | None = getattr(request.state, "caller", None)
    return {} if caller is None or caller.federation is None else caller.federation.summary


async def record_login(request: Request, principal: Principal, resource_type: str) -> None:
    """Record a login at an identity provider: it is a write, also with GET. It ends in a redirect."""
    await services_of(request).audit.record(
        principal,
        claimed="",
        action="login",
        resource_type=resource_type,
        resource=principal.issuer,
        method=request.method,
        path=request.url.path,
        status=303,
        source=address_of(request),
        request_id=request.state.request_id,
        body={},
    )


async def _body(request: Request) -> dict[str, Any]:
    """Return what the handler read, from the request's own cache."""
    try:
        parsed = json.loads(await request.body())
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}
