"""The application: routes under `/api`, described by `/api/openapi.json`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fastapi import FastAPI

from postern import __version__
from postern.api import error_answers
from postern.api.client_address import Network
from postern.api.info import StaticServerInfo
from postern.api.middleware import Envelope
from postern.api.openapi_document import DescribedApplication
from postern.api.route import routes_below
from postern.api.routes.identity import (
    api_key_routes,
    app_login_routes,
    credential_routes,
    device_routes,
    federation_routes,
    group_routes,
    local_auth_routes,
    login_routes,
    logins_routes,
    machine_routes,
    organisation_routes,
    saml_routes,
    second_factor_routes,
    service_account_routes,
    ssh_authority_routes,
    ssh_key_routes,
    ssh_login_routes,
    user_routes,
    web_login_routes,
)
from postern.api.routes.reviews import review_page_routes, review_routes, review_rule_routes
from postern.api.routes.rules import (
    access_rule_routes,
    guardrail_routes,
    guardrail_trial_routes,
    masking_rule_routes,
    network_rule_routes,
)
from postern.api.routes.runbooks import (
    issue_template_routes,
    runbook_repository_routes,
    runbook_routes,
    runbook_rule_routes,
    runbook_run_routes,
    runbook_schedule_routes,
    tracker_routes,
)
from postern.api.routes.server import (
    audit_log_routes,
    chat_routes,
    configuration_routes,
    event_routes,
    feature_routes,
    metrics_routes,
    report_routes,
    server_config_routes,
    server_log_routes,
    server_routes,
    sink_routes,
    status_routes,
    web_app_routes,
)
from postern.api.routes.sessions import (
    hold_routes,
    recording_routes,
    retention_routes,
    script_routes,
    session_file_routes,
    session_hook_routes,
    session_issue_routes,
    session_proof_routes,
    session_routes,
    session_stream_routes,
    terminal_routes,
)
from postern.api.routes.targets import (
    agent_routes,
    connection_routes,
    host_key_routes,
    introspection_routes,
    proxy_manager_routes,
    resource_routes,
)
from postern.api.scim import scim_mount
from postern.api.terminals.terminal_endpoint import Terminals
from postern.api.terminals.terminal_limiter import TerminalLimiter
from postern.services.bundle import Services
from postern.services.completion_signals import CompletionSignals
from postern.services.targets.target_tasks import WAIT
from postern.transport.tunnel_dialling import TunnelAddress
from postern.web.web_assets import WebAssets

_PARTS = (
    *(local_auth_routes.router, web_login_routes.router, logins_routes.router, second_factor_routes.router),
    *(server_routes.router, group_routes.router, user_routes.router, agent_routes.router, connection_routes.router),
    *(resource_routes.router, resource_routes.tags_router, resource_routes.types_router),
    *(introspection_routes.router, introspection_routes.previews),
    *(ssh_key_routes.router, ssh_authority_routes.router),
    *(service_account_routes.router, api_key_routes.router, federation_routes.router, machine_routes.router),
    *(
        status_routes.open_router,
        status_routes.router,
        organisation_routes.router,
        feature_routes.router,
        audit_log_routes.router,
    ),
    *(server_config_routes.router, server_log_routes.router, configuration_routes.router),
    *(
        credential_routes.router,
        credential_routes.own_router,
        host_key_routes.router,
        access_rule_routes.router,
        network_rule_routes.router,
        review_rule_routes.router,
        runbook_rule_routes.router,
        guardrail_trial_routes.router,
        guardrail_trial_routes.trials,
        guardrail_routes.router,
        masking_rule_routes.router,
        masking_rule_routes.trials,
        session_routes.router,
        script_routes.router,
        review_routes.router,
    ),
    *(retention_routes.router, hold_routes.router),
    terminal_routes.router,
    *(recording_routes.router, session_file_routes.router, session_stream_routes.router, session_hook_routes.router),
    session_proof_routes.router,
    *(
        login_routes.router,
        device_routes.router,
        ssh_login_routes.router,
        app_login_routes.router,
        saml_routes.router,
        proxy_manager_routes.router,
    ),
    *(report_routes.router, event_routes.router, sink_routes.router, metrics_routes.router),
    *(chat_routes.router, review_page_routes.router),
    *(
        runbook_routes.router,
        runbook_run_routes.router,
        runbook_run_routes.dry_runs,
        runbook_schedule_routes.router,
        runbook_repository_routes.router,
    ),
    *(
        tracker_routes.router,
        session_issue_routes.router,
        issue_template_routes.previews,
        issue_template_routes.router,
    ),
)

EXEC_WAIT = 50.0
STREAM_LIFE = 3600.0


def create_app(
    services: Services,
    info: StaticServerInfo,
    *,
    exec_wait: float = EXEC_WAIT,
    target_task_wait: float = WAIT,
    stream_life: float = STREAM_LIFE,
    trusted_proxies: Sequence[Network] = (),
    web_assets: WebAssets | None = None,
    tunnel: TunnelAddress | None = None,
    acme_answer: Callable[[str], str | None] = lambda _token: None,
) -> FastAPI:
    """Settings of the API, in seconds: `exec_wait` is how long a request waits for its script to end,
    `target_task_wait` for the answer of a target, `stream_life` how long one answer follows the server's log.
    `trusted_proxies` can name the address of their client. Without `web_assets` there is no web application. `tunnel`
    leads to the relay workers; without it there are no terminals in browsers. `acme_answer` returns the answer to a
    challenge of an ACME server, by its token.
    """
    app = make_application()
    serve(
        app,
        services,
        info,
        exec_wait=exec_wait,
        target_task_wait=target_task_wait,
        stream_life=stream_life,
        trusted_proxies=trusted_proxies,
        web_assets=web_assets,
        tunnel=tunnel,
        acme_answer=acme_answer,
    )
    return app


def serve(
    app: FastAPI,
    services: Services,
    info: StaticServerInfo,
    *,
    exec_wait: float = EXEC_WAIT,
    target_task_wait: float = WAIT,
    stream_life: float = STREAM_LIFE,
    trusted_proxies: Sequence[Network] = (),
    web_assets: WebAssets | None = None,
    tunnel: TunnelAddress | None = None,
    acme_answer: Callable[[str], str | None] = lambda _token: None,
) -> None:
    """Let the application answer for these services from now on."""
    app.state.services = services
    app.state.info = info
    app.state.exec_wait = exec_wait
    app.state.target_task_wait = target_task_wait
    app.state.stream_life = stream_life
    app.state.trusted_proxies = tuple(trusted_proxies)
    app.state.web_assets = web_assets
    app.state.acme_answer = acme_answer
    app.state.terminals = Terminals(tunnel, TerminalLimiter())
    app.state.done = CompletionSignals(services.signals)


def make_application() -> FastAPI:
    """Return an application with all routes, and no services yet."""
    app = DescribedApplication(
        title="Postern API",
        version=__version__,
        description="An access gateway for databases and servers: access rules, approvals, masking, guardrails and "
        "recordings.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # these pages load scripts from other sites
        redoc_url=None,
        redirect_slashes=False,
    )
    error_answers.install(app)
    for part in _PARTS:
        app.router.routes += routes_below("/api", part.routes)
    scim_mount.install(app)
    app.router.routes.append(terminal_routes.socket_route)
    app.router.routes += routes_below("", web_app_routes.router.routes)  # the last one has every path that is left
    app.add_middleware(Envelope)
    return app
