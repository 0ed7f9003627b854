"""The application: routes under `/api`, described by `/api/openapi.json`."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from postern import __version__
from postern.api import errors
from postern.api.info import ServerInfo
from postern.api.middleware import Envelope
from postern.api.routes import (
    agents,
    connections,
    credentials,
    device,
    guardrails,
    login,
    logins,
    saml,
    scripts,
    server,
    sessions,
    users,
)
from postern.services.bundle import Services
from postern.services.done import DoneSignals

EXEC_WAIT = 50.0  # seconds


def create_app(services: Services, info: ServerInfo, *, exec_wait: float = EXEC_WAIT) -> FastAPI:
    """`exec_wait` is how long, in seconds, a request waits for its script to end."""
    app = FastAPI(
        title="Postern API",
        version=__version__,
        description="An access gateway for databases and servers: who may, what they did, under which rules.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # the pages behind these load scripts from elsewhere
        redoc_url=None,
        generate_unique_id_function=_operation_id,
        redirect_slashes=False,
    )
    app.state.services = services
    app.state.info = info
    app.state.exec_wait = exec_wait
    app.state.done = DoneSignals(services.signals)
    errors.install(app)
    api = APIRouter(prefix="/api")
    for part in (server.open_router, server.router, logins.router, users.router, agents.router, connections.router):
        api.include_router(part)
    for part in (credentials.router, guardrails.router, sessions.router, scripts.router):
        api.include_router(part)
    for part in (login.router, device.router, saml.router):
        api.include_router(part)
    app.include_router(api)
    app.add_middleware(Envelope)
    return app


def _operation_id(route: APIRoute) -> str:
    return route.name
