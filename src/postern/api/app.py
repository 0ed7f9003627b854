"""The application: routes under `/api`, described by `/api/openapi.json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI

from postern import __version__
from postern.api import errors
from postern.api.addresses import Network
from postern.api.auth import SECURITY_SCHEMES
from postern.api.info import ServerInfo
from postern.api.middleware import Envelope
from postern.api.route import Route
from postern.api.routes import (
    access_rules,
    agents,
    api_keys,
    audit_logs,
    chats,
    connections,
    credentials,
    device,
    events,
    features,
    groups,
    guardrail_trials,
    guardrails,
    holds,
    host_keys,
    introspection,
    issue_templates,
    local_auth,
    login,
    logins,
    machines,
    masking_rules,
    metrics,
    organisations,
    proxy_managers,
    recordings,
    reports,
    resources,
    retention,
    review_page,
    review_rules,
    reviews,
    runbook_repositories,
    runbook_rules,
    runbook_runs,
    runbook_schedules,
    runbooks,
    saml,
    scripts,
    second_factors,
    server,
    server_config,
    server_logs,
    service_accounts,
    session_files,
    session_hooks,
    session_issues,
    session_stream,
    sessions,
    sinks,
    ssh_authorities,
    ssh_keys,
    ssh_logins,
    status,
    tracker,
    users,
    web_login,
)
from postern.api.scim import routes as scim
from postern.api.scim import shaped
from postern.api.scim.resources import PREFIX
from postern.services.bundle import Services
from postern.services.done import DoneSignals
from postern.services.errands import WAIT

_PARTS = (
    *(local_auth.router, web_login.router, logins.router, second_factors.router),
    *(server.router, groups.router, users.router, agents.router, connections.router),
    *(resources.router, resources.tags_router),
    introspection.router,
    *(ssh_keys.router, ssh_authorities.router),
    *(service_accounts.router, api_keys.router, machines.router, scim.router),
    *(status.open_router, status.router, organisations.router, features.router, audit_logs.router),
    *(server_config.router, server_logs.router),
    *(
        credentials.router,
        host_keys.router,
        access_rules.router,
        review_rules.router,
        runbook_rules.router,
        guardrail_trials.router,
        guardrail_trials.simulations,
        guardrails.router,
        masking_rules.router,
        sessions.router,
        scripts.router,
        reviews.router,
    ),
    *(retention.router, holds.router),
    *(recordings.router, session_files.router, session_stream.router, session_hooks.router),
    *(login.router, device.router, ssh_logins.router, saml.router, proxy_managers.router),
    *(reports.router, events.router, sinks.router, metrics.router),
    *(chats.router, review_page.router),
    *(runbooks.router, runbook_runs.router, runbook_schedules.router, runbook_repositories.router),
    *(tracker.router, session_issues.router, issue_templates.router),
)

EXEC_WAIT = 50.0
STREAM_LIFE = 3600.0


def create_app(
    services: Services,
    info: ServerInfo,
    *,
    exec_wait: float = EXEC_WAIT,
    errand_wait: float = WAIT,
    stream_life: float = STREAM_LIFE,
    trusted_proxies: Sequence[Network] = (),
) -> FastAPI:
    """In seconds: `exec_wait` is how long a request waits for its script to end, `errand_wait` for the answer of a
    target, `stream_life` how long one answer follows the server's log. `trusted_proxies` are believed about who their
    client is."""
    app = routed()
    serve(
        app,
        services,
        info,
        exec_wait=exec_wait,
        errand_wait=errand_wait,
        stream_life=stream_life,
        trusted_proxies=trusted_proxies,
    )
    return app


def serve(
    app: FastAPI,
    services: Services,
    info: ServerInfo,
    *,
    exec_wait: float = EXEC_WAIT,
    errand_wait: float = WAIT,
    stream_life: float = STREAM_LIFE,
    trusted_proxies: Sequence[Network] = (),
) -> None:
    """From now on the application answers for these services."""
    app.state.services = services
    app.state.info = info
    app.state.exec_wait = exec_wait
    app.state.errand_wait = errand_wait
    app.state.stream_life = stream_life
    app.state.trusted_proxies = tuple(trusted_proxies)
    app.state.done = DoneSignals(services.signals)


def routed() -> FastAPI:
    """All routes, and nothing behind them yet."""
    app = _Described(
        title="Postern API",
        version=__version__,
        description="An access gateway for databases and servers: who may, what they did, under which rules.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # the pages behind these load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    errors.install(app)
    shaped.install(app, PREFIX)
    for part in _PARTS:
        for route in part.routes:
            assert isinstance(route, Route), f"{route} is made without the route class of the API"
            # Not by `include_router`, which looks for the route of a request anew at every level of nesting.
            app.router.routes.append(route.below("/api"))
    for route in web_login.root.routes:
        assert isinstance(route, Route)
        app.router.routes.append(route.below(""))
    app.add_middleware(Envelope)
    return app


class _Described(FastAPI):
    """Routes name the ways to say who one is and do not depend on them: FastAPI would solve these dependencies again
    for every parameter of a route that needs to know who asks."""

    def openapi(self) -> dict[str, Any]:
        described = super().openapi()
        described["components"]["securitySchemes"] = SECURITY_SCHEMES
        return described
