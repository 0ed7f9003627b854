"""The protocol specification of Amazon DynamoDB."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from postern.protocols.aws.spec import AWS_KEYS, AWS_PRELOAD, AwsParts, exchange_of
from postern.protocols.spec import DialectSpec, ProtocolSpec

if TYPE_CHECKING:
    from postern.domain.rules.permit import Permit
    from postern.gateway.gateway_protocols import OpenWire, WireParts
    from postern.gateway.rules.row_counts import RowCounter
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
    from postern.relay.relay_target import Dialer, Start

_NAME = "dynamodb"
_SIGNED_FOR = ("dynamodb",)


def _wires(parts: WireParts) -> OpenWire:
    from postern.protocols.dynamodb.wire.dynamodb_dialect import DynamodbDialect
    from postern.protocols.dynamodb.wire.sealed_keys import KeySealer
    from postern.protocols.http.wire.http_wire import HttpWire

    def open_wire(permit: Permit, start: Start, parameters: Mapping[str, str]) -> Wire:
        sealer = KeySealer(parts.shared_secret, f"{permit.principal.id}/{permit.connection.id}")
        return HttpWire(DynamodbDialect(sealer), parameters.get("authority", ""))

    return open_wire


def _scheme() -> CredentialScheme:
    from postern.protocols.aws.listener.aws_credential_scheme import AwsCredentialScheme

    return AwsCredentialScheme(_SIGNED_FOR)


def _service_of() -> ServiceOf:
    from postern.protocols.dynamodb.dynamodb_target import service_of

    return service_of


def _script(text: str) -> Script:
    from postern.protocols.dynamodb.queries.dynamodb_script import DynamodbScript

    return DynamodbScript(text)


def _catalogue() -> Catalogue:
    from postern.protocols.dynamodb.queries.dynamodb_catalogue import CATALOGUE

    return CATALOGUE


def _row_counts(dialer: Dialer) -> RowCounter:
    from postern.protocols.dynamodb.dynamodb_row_counts import ItemCounts

    return ItemCounts()


def _renderer() -> Renderer:
    from postern.protocols.dynamodb.recorded.dynamodb_answers import DynamodbTextRenderer

    return DynamodbTextRenderer()


def _results() -> ResultReader:
    from postern.protocols.dynamodb.recorded.dynamodb_answers import DynamodbResults

    return DynamodbResults()


def _answers() -> AnswerReader:
    from postern.protocols.dynamodb.recorded.dynamodb_answers import DynamodbAnswers

    return DynamodbAnswers()


def _parser() -> Parser:
    from postern.inspection.sql.shared import own
    from postern.protocols.dynamodb.dialect.dynamodb_parser import DynamodbParser

    return own(DynamodbParser)


def _lineage() -> SessionLineages:
    from postern.protocols.dynamodb.lineage.dynamodb_session_lineage import DynamodbSessionLineage

    return lambda schema: DynamodbSessionLineage()


def _facts() -> StatementFacts:
    from postern.protocols.dynamodb.dialect.dynamodb_statement_facts import DynamodbStatementFacts

    return DynamodbStatementFacts()


def _split() -> Callable[[str], ScriptSpans]:
    from postern.protocols.dynamodb.dialect.dynamodb_splitting import split_dynamodb

    return split_dynamodb


def _client() -> NativeClient:
    from postern.protocols.dynamodb.dynamodb_client import CLIENT

    return CLIENT


_PARTS = AwsParts(_NAME, _scheme, _service_of)

DYNAMODB = ProtocolSpec(
    name=_NAME,
    title="DynamoDB",
    servers="Amazon DynamoDB",
    type="custom",
    port=7018,
    has_cancel=False,
    signs_requests=True,
    needs_secret_files=False,
    keys=AWS_KEYS,
    preload=(*AWS_PRELOAD, "postern.protocols.dynamodb.wire.dynamodb_dialect"),
    wires=_wires,
    targets=_PARTS.targets,
    gate=_PARTS.gate,
    local_port=_PARTS.local_port,
    script=_script,
    catalogue=_catalogue,
    row_counts=_row_counts,
    renderer=_renderer,
    results=_results,
    answers=_answers,
    exchange_of=exchange_of,
    dialect=DialectSpec(name=_NAME, parser=_parser, lineage=_lineage, facts=_facts, split=_split),
    client=_client,
)
