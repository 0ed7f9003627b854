"""SCIM as the application includes it: most gateways never need it, so it is imported with the first request for it."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from postern.api.route import LazyRoutes, routes_below

PREFIX = "/api/scim/v2"
# Parts of the standard that a provider can leave out, and that clients detect by 501 (RFC 7644 section 3.12).
LEFT_OUT = frozenset({"/.search", "/Users/.search", "/Groups/.search", "/Bulk", "/Me"})


def install(app: FastAPI) -> None:
    """Add the routes, and answer unknown paths and methods below PREFIX in SCIM's own form."""
    usual = app.exception_handlers[HTTPException]

    async def on_http_error(request: Request, error: Exception) -> Response:
        response: Response = await usual(request, error)  # type: ignore[misc]
        if not request.url.path.startswith(PREFIX):
            return response
        from postern.api.scim.scim_errors import answer  # loaded with the routes

        left_out = request.url.path.removeprefix(PREFIX) in LEFT_OUT
        status = 501 if left_out else response.status_code
        text = f"this gateway does not support {request.method} {request.url.path}"
        scim_answer = answer(status, text)
        if "allow" in response.headers:
            scim_answer.headers["allow"] = response.headers["allow"]
        return scim_answer

    app.add_exception_handler(HTTPException, on_http_error)
    app.router.routes.append(LazyRoutes(PREFIX, _load))


def _load() -> list[BaseRoute]:
    from postern.api.scim.routes import router

    return routes_below("/api", router.routes)
