"""The protocol specification of MongoDB."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from postern.protocols.spec import DialectSpec, ProtocolSpec, ScriptSyntax, TargetKeys

if TYPE_CHECKING:
    from postern.agent.agent_policy import LocalPolicy
    from postern.agent.agent_protocols import Targets
    from postern.domain.rules.permit import Permit
    from postern.domain.sessions.script_parameters import BoundScript
    from postern.gateway.gateway_protocols import Gate, GateParts, OpenWire, WireParts
    from postern.gateway.rules.row_counts import RowCounter
    from postern.inspection.masking.origins import SessionLineages
    from postern.inspection.masking.statement_facts import StatementFacts
    from postern.inspection.sql.script_spans import ScriptSpans
    from postern.inspection.sql.sql_parser import Parser
    from postern.protocols.clients import NativeClient
    from postern.protocols.gateway_queries import Catalogue, Script
    from postern.protocols.protocol_database_uri import DatabaseUri
    from postern.protocols.wire_base import Wire
    from postern.recording.recording_library import ResultReader
    from postern.recording.recording_rendering import Renderer
    from postern.recording.steps import AnswerReader
    from postern.relay.relay_target import Dialer, Start


def _wires(parts: WireParts) -> OpenWire:
    from postern.protocols.mongodb.login.mongodb_hello import hello_after_login
    from postern.protocols.mongodb.wire.mongodb_cursors import CursorRegistry
    from postern.protocols.mongodb.wire.mongodb_wire import MongodbWire

    registry = CursorRegistry()

    def open_wire(permit: Permit, start: Start, parameters: Mapping[str, str]) -> Wire:
        return MongodbWire(
            max_message=parts.settings.max_statement,
            parameters=parameters,
            hello=hello_after_login(parameters, parts.settings.max_statement),
            cursors=registry.of(str(permit.principal.id), str(permit.connection.id)),
        )

    return open_wire


def _gate(parts: GateParts) -> Gate:
    from postern.protocols.mongodb.mongodb_listener import MongodbGate

    return MongodbGate(
        parts.fronts,
        version=parts.settings.mongodb_version,
        decoy_secret=parts.decoy_secret,
        max_message=parts.settings.max_statement,
    )


def _targets(policy: LocalPolicy, environ: Mapping[str, str]) -> Targets:
    from postern.protocols.mongodb.mongodb_target import MongodbTargets

    return MongodbTargets(policy)


def _script(text: str) -> Script:
    from postern.protocols.mongodb.queries.mongodb_script import MongodbScript

    return MongodbScript(text)


def _bound_script(script: BoundScript) -> Script:
    from postern.protocols.mongodb.queries.mongodb_script import MongodbScript

    return MongodbScript(script)


def _split() -> Callable[[str], ScriptSpans]:
    from postern.protocols.mongodb.dialect.mongodb_splitting import split_mongodb

    return split_mongodb


def _parameters(name: str) -> Mapping[str, str]:
    return {"application": name}


def _catalogue() -> Catalogue:
    from postern.protocols.mongodb.queries.mongodb_catalogue import CATALOGUE

    return CATALOGUE


def _row_counts(dialer: Dialer) -> RowCounter:
    from postern.protocols.mongodb.mongodb_row_counts import document_counts

    return document_counts(dialer)


def _renderer() -> Renderer:
    from postern.protocols.mongodb.recorded.mongodb_text_renderer import MongodbTextRenderer

    return MongodbTextRenderer()


def _results() -> ResultReader:
    from postern.protocols.mongodb.recorded.mongodb_tables import MongodbResults

    return MongodbResults()


def _answers() -> AnswerReader:
    from postern.protocols.mongodb.recorded.mongodb_answer_reader import MongodbAnswers

    return MongodbAnswers()


def _parser() -> Parser:
    from postern.inspection.sql.shared import own
    from postern.protocols.mongodb.dialect.mongodb_parser import MongodbParser

    return own(MongodbParser)


def _lineage() -> SessionLineages:
    from postern.protocols.mongodb.lineage.mongodb_lineage import MongodbLineage
    from postern.protocols.mongodb.lineage.mongodb_session_lineage import MongodbSessionLineage

    lineage = MongodbLineage()
    return lambda schema: MongodbSessionLineage(lineage, schema)


def _facts() -> StatementFacts:
    from postern.protocols.mongodb.dialect.mongodb_statement_facts import MongodbStatementFacts

    return MongodbStatementFacts()


def _uri() -> DatabaseUri:
    from postern.protocols.mongodb.mongodb_uri import URI

    return URI


def _client() -> NativeClient:
    from postern.protocols.mongodb.mongodb_client import CLIENT

    return CLIENT


MONGODB = ProtocolSpec(
    name="mongodb",
    title="MongoDB",
    servers="MongoDB",
    type="database",
    port=7017,
    has_cancel=False,
    keys=TargetKeys(
        27017,
        required=(),
        readable=("HOST", "PORT", "USER", "DB", "AUTHSOURCE", "MECHANISM", "SRV", "SSLMODE"),
        private=("PASS", "CONNECTION_STRING", "SSLROOTCERT", "SSLCERT", "SSLKEY"),
        one_of=("HOST", "CONNECTION_STRING"),
    ),
    syntax=ScriptSyntax.JAVASCRIPT,
    variables={
        "HOST": ("MONGODB_HOST", "MONGO_HOST"),
        "PORT": ("MONGODB_PORT", "MONGO_PORT"),
        "USER": ("MONGODB_USER", "MONGODB_USERNAME", "MONGO_INITDB_ROOT_USERNAME"),
        "PASS": ("MONGODB_PASSWORD", "MONGO_INITDB_ROOT_PASSWORD"),
        "DB": ("MONGODB_DATABASE", "MONGO_INITDB_DATABASE"),
        "CONNECTION_STRING": ("MONGODB_URI", "MONGODB_URL", "MONGO_URL", "MONGO_URI"),
    },
    preload=(
        "postern.protocols.mongodb.mongodb_listener",
        "postern.protocols.mongodb.mongodb_target",
    ),
    wires=_wires,
    targets=_targets,
    gate=_gate,
    script=_script,
    bound_script=_bound_script,
    parameters=_parameters,
    catalogue=_catalogue,
    row_counts=_row_counts,
    renderer=_renderer,
    results=_results,
    answers=_answers,
    dialect=DialectSpec(name="mongodb", parser=_parser, lineage=_lineage, facts=_facts, split=_split),
    uri=_uri,
    client=_client,
)
