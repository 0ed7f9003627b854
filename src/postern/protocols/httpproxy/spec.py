"""The protocol specification of HTTP applications."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from postern.protocols.spec import DialectSpec, ProtocolSpec, ScriptSyntax, TargetKeys

if TYPE_CHECKING:
    from postern.agent.agent_policy import LocalPolicy
    from postern.agent.agent_protocols import Targets
    from postern.domain.rules.permit import Permit
    from postern.domain.sessions.script_parameters import BoundScript
    from postern.gateway.clients.session_setup import SessionSetup
    from postern.gateway.gateway_protocols import Gate, GateParts, OpenWire, TunnelServer, WireParts
    from postern.inspection.masking.origins import SessionLineages
    from postern.inspection.masking.statement_facts import StatementFacts
    from postern.inspection.sql.script_spans import ScriptSpans
    from postern.inspection.sql.sql_parser import Parser
    from postern.protocols.clients import NativeClient
    from postern.protocols.gateway_queries import Script
    from postern.protocols.wire_base import Wire
    from postern.recording.recording_library import Archive, ResultReader
    from postern.recording.recording_rendering import Renderer
    from postern.recording.steps import AnswerReader
    from postern.relay.relay_target import Start

_NAME = "httpproxy"


def _wires(parts: WireParts) -> OpenWire:
    from postern.protocols.http.wire.http_wire import HttpWire
    from postern.protocols.httpproxy.httpproxy_dialect import HttpproxyDialect

    def open_wire(permit: Permit, start: Start, parameters: Mapping[str, str]) -> Wire:
        return HttpWire(HttpproxyDialect(parts.settings.max_statement), parameters.get("authority", ""))

    return open_wire


def _gate(parts: GateParts) -> Gate:
    from postern.protocols.http.listener.http_browser_login import HttpBrowserLogin
    from postern.protocols.http.listener.http_gate import HttpGate

    return HttpGate(parts, _NAME, browser_login=HttpBrowserLogin(parts.services))


def _local_port(fronts: SessionSetup) -> TunnelServer:
    from postern.protocols.http.listener.http_gate import HttpLocalPort

    return HttpLocalPort(fronts, _NAME)


def _targets(policy: LocalPolicy, environ: Mapping[str, str]) -> Targets:
    from postern.protocols.http.target.http_targets import HttpTargets

    return HttpTargets(policy)


def _script(text: str) -> Script:
    from postern.protocols.httpproxy.httpproxy_script import HttpproxyScript

    return HttpproxyScript(text)


def _bound_script(script: BoundScript) -> Script:
    from postern.protocols.httpproxy.httpproxy_script import HttpproxyScript

    return HttpproxyScript(script)


def _split() -> Callable[[str], ScriptSpans]:
    from postern.protocols.httpproxy.dialect.httpproxy_splitting import split_requests

    return split_requests


def _renderer() -> Renderer:
    from postern.protocols.http.recorded.http_text_renderer import HttpTextRenderer

    return HttpTextRenderer()


def _results() -> ResultReader:
    from postern.protocols.http.recorded.http_results import HttpResults

    return HttpResults()


def _answers() -> AnswerReader:
    from postern.protocols.http.recorded.http_answer_reader import HttpAnswers

    return HttpAnswers()


def _exchange_of(output: bytes) -> int:
    from postern.protocols.http.recorded.exchange_numbers import exchange_of

    return exchange_of(output)


def _archive() -> Archive:
    from postern.protocols.http.recorded.http_archive import write_archive

    return write_archive


def _parser() -> Parser:
    from postern.inspection.sql.shared import own
    from postern.protocols.httpproxy.dialect.httpproxy_parser import HttpproxyParser

    return own(HttpproxyParser)


def _facts() -> StatementFacts:
    from postern.protocols.httpproxy.dialect.httpproxy_statement_facts import HttpproxyStatementFacts

    return HttpproxyStatementFacts()


def _lineage() -> SessionLineages:
    from postern.protocols.httpproxy.lineage.httpproxy_lineage import httpproxy_lineage

    return httpproxy_lineage()


def _client() -> NativeClient:
    from postern.protocols.httpproxy.httpproxy_client import CLIENT

    return CLIENT


HTTPPROXY = ProtocolSpec(
    name=_NAME,
    title="HTTP",
    servers="HTTP applications",
    type="application",
    port=7080,
    is_web=True,
    has_cancel=False,
    needs_secret_files=False,
    tested_by_login=True,
    keys=TargetKeys(
        port=0,  # it is in the URL
        required=("REMOTE_URL",),
        readable=("REMOTE_URL", "SSLMODE", "INSECURE", "HTTP_VERSION"),
        private=("SSLROOTCERT",),
        prefixes=("HEADER_",),
    ),
    syntax=ScriptSyntax.HTTP,
    preload=(
        "postern.protocols.http.listener.http_gate",
        "postern.protocols.http.target.http_targets",
        "postern.protocols.httpproxy.httpproxy_dialect",
    ),
    wires=_wires,
    targets=_targets,
    gate=_gate,
    local_port=_local_port,
    script=_script,
    bound_script=_bound_script,
    renderer=_renderer,
    results=_results,
    answers=_answers,
    exchange_of=_exchange_of,
    archive=_archive,
    dialect=DialectSpec(name=_NAME, parser=_parser, lineage=_lineage, facts=_facts, split=_split),
    client=_client,
)
