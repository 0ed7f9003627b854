"""The protocol specification of Amazon DynamoDB."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from postern.protocols.spec import DialectSpec, ProtocolSpec, TargetKeys

if TYPE_CHECKING:
    from postern.agent.agent_policy import LocalPolicy
    from postern.agent.agent_protocols import Targets
    from postern.domain.rules.permit import Permit
    from postern.domain.targets.target_schema import TargetSchema
    from postern.gateway.clients.session_setup import SessionSetup
    from postern.gateway.gateway_protocols import Gate, GateParts, OpenWire, TunnelServer, WireParts
    from postern.gateway.rules.row_counts import RowCounter
    from postern.inspection.masking.origins import SessionOrigins
    from postern.inspection.masking.statement_facts import StatementFacts
    from postern.inspection.sql.script_spans import ScriptSpans
    from postern.inspection.sql.sql_parser import Parser
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


def _gate(parts: GateParts) -> Gate:
    from postern.protocols.http.listener.http_gate import HttpGate

    return HttpGate(parts, _NAME, scheme=_scheme())


def _local_port(fronts: SessionSetup) -> TunnelServer:
    from postern.protocols.http.listener.http_gate import HttpLocalPort

    return HttpLocalPort(fronts, _NAME, scheme=_scheme())


def _targets(policy: LocalPolicy, environ: Mapping[str, str]) -> Targets:
    from postern.protocols.aws.target.aws_targets import AwsTargets
    from postern.protocols.dynamodb.dynamodb_target import service_of

    return AwsTargets(policy, service_of)


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


def _exchange_of(output: bytes) -> int:
    from postern.protocols.http.recorded.exchange_numbers import exchange_of

    return exchange_of(output)


def _parser() -> Parser:
    from postern.inspection.sql.shared import own
    from postern.protocols.dynamodb.dialect.dynamodb_parser import DynamodbParser

    return cast("Parser", own(DynamodbParser))


def _lineage() -> Callable[[Callable[[], TargetSchema | None]], SessionOrigins]:
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


DYNAMODB = ProtocolSpec(
    name=_NAME,
    title="DynamoDB",
    servers="Amazon DynamoDB",
    type="custom",
    port=7018,
    has_cancel=False,
    signs_requests=True,
    needs_secret_files=False,
    keys=TargetKeys(
        port=0,  # it is in the URL
        required=(),
        one_of=("AWS_ACCESS_KEY_ID",),
        readable=(
            *("AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_ROLE_ARN", "AWS_EXTERNAL_ID"),
            "SSLMODE",
        ),
        private=("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "SSLROOTCERT"),
    ),
    preload=(
        "postern.protocols.aws.listener.aws_credential_scheme",
        "postern.protocols.aws.target.aws_targets",
        "postern.protocols.dynamodb.wire.dynamodb_dialect",
    ),
    wires=_wires,
    targets=_targets,
    gate=_gate,
    local_port=_local_port,
    script=_script,
    catalogue=_catalogue,
    row_counts=_row_counts,
    renderer=_renderer,
    results=_results,
    answers=_answers,
    exchange_of=_exchange_of,
    dialect=DialectSpec(name=_NAME, parser=_parser, lineage=_lineage, facts=_facts, split=_split),
    client=_client,
)
