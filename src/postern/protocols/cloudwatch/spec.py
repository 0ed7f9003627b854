"""The protocol specification of Amazon CloudWatch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from postern.protocols.aws.spec import AWS_KEYS, AWS_PRELOAD, AwsParts, exchange_of
from postern.protocols.spec import DialectSpec, ProtocolSpec, ScriptSyntax

if TYPE_CHECKING:
    from postern.domain.rules.permit import Permit
    from postern.gateway.gateway_protocols import OpenWire, WireParts
    from postern.inspection.masking.origins import SessionLineages
    from postern.inspection.masking.statement_facts import StatementFacts
    from postern.inspection.sql.script_spans import ScriptSpans
    from postern.inspection.sql.sql_parser import Parser
    from postern.protocols.aws.target.aws_targets import ServiceOf
    from postern.protocols.clients import NativeClient
    from postern.protocols.gateway_queries import Catalogue, Script
    from postern.protocols.http.listener.credential_scheme import CredentialScheme
    from postern.protocols.wire_base import Wire
    from postern.recording.recording_library import ResultReader
    from postern.recording.recording_rendering import Renderer
    from postern.recording.steps import AnswerReader
    from postern.relay.relay_target import Start

_NAME = "cloudwatch"
_MAX_BODY = 16 << 20


def _wires(parts: WireParts) -> OpenWire:
    from postern.protocols.cloudwatch.cloudwatch_listener import SharedQueryRegistry
    from postern.protocols.cloudwatch.wire.cloudwatch_dialect import CloudwatchDialect
    from postern.protocols.http.wire.http_wire import HttpWire

    registry = SharedQueryRegistry(parts.signals)

    def open_wire(permit: Permit, start: Start, parameters: Mapping[str, str]) -> Wire:
        queries = registry.of(str(permit.principal.id), str(permit.connection.id))
        dialect = CloudwatchDialect(queries, max_body=min(_MAX_BODY, parts.settings.max_statement))
        return HttpWire(dialect, parameters.get("authority", ""))

    return open_wire


def _scheme() -> CredentialScheme:
    from postern.protocols.cloudwatch.cloudwatch_listener import CloudwatchCredentialScheme

    return CloudwatchCredentialScheme()


def _service_of() -> ServiceOf:
    from postern.protocols.cloudwatch.cloudwatch_target import service_of

    return service_of


def _script(text: str) -> Script:
    from postern.protocols.cloudwatch.queries.cloudwatch_script import CloudwatchScript

    return CloudwatchScript(text)


def _catalogue() -> Catalogue:
    from postern.protocols.cloudwatch.queries.cloudwatch_catalogue import CATALOGUE

    return CATALOGUE


def _renderer() -> Renderer:
    from postern.protocols.cloudwatch.recorded.cloudwatch_text_renderer import CloudwatchTextRenderer

    return CloudwatchTextRenderer()


def _results() -> ResultReader:
    from postern.protocols.cloudwatch.recorded.cloudwatch_tables import CloudwatchResults

    return CloudwatchResults()


def _answers() -> AnswerReader:
    from postern.protocols.cloudwatch.recorded.cloudwatch_answer_reader import CloudwatchAnswers

    return CloudwatchAnswers()


def _parser() -> Parser:
    from postern.inspection.sql.shared import own
    from postern.protocols.cloudwatch.dialect.cloudwatch_parser import CloudwatchParser

    return own(CloudwatchParser)


def _lineage() -> SessionLineages:
    from postern.protocols.cloudwatch.dialect.cloudwatch_lineage import CloudwatchSessionLineage

    return CloudwatchSessionLineage


def _facts() -> StatementFacts:
    from postern.protocols.cloudwatch.dialect.cloudwatch_statement_facts import CloudwatchStatementFacts

    return CloudwatchStatementFacts()


def _split() -> Callable[[str], ScriptSpans]:
    from postern.protocols.cloudwatch.dialect.cloudwatch_splitting import split_cloudwatch

    return split_cloudwatch


def _client() -> NativeClient:
    from postern.protocols.cloudwatch.cloudwatch_client import CLIENT

    return CLIENT


_PARTS = AwsParts(_NAME, _scheme, _service_of)

CLOUDWATCH = ProtocolSpec(
    name=_NAME,
    title="CloudWatch",
    servers="Amazon CloudWatch Logs and CloudWatch metrics",
    type="custom",
    port=7019,
    has_cancel=False,
    signs_requests=True,
    needs_secret_files=False,
    keys=AWS_KEYS,
    syntax=ScriptSyntax.SHELL,
    preload=(
        *AWS_PRELOAD,
        "postern.protocols.cloudwatch.cloudwatch_listener",
        "postern.protocols.cloudwatch.wire.cloudwatch_dialect",
    ),
    wires=_wires,
    targets=_PARTS.targets,
    gate=_PARTS.gate,
    local_port=_PARTS.local_port,
    script=_script,
    catalogue=_catalogue,
    renderer=_renderer,
    results=_results,
    answers=_answers,
    exchange_of=exchange_of,
    dialect=DialectSpec(name=_NAME, parser=_parser, lineage=_lineage, facts=_facts, split=_split),
    client=_client,
)
