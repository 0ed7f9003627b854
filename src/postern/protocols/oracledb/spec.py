"""The protocol specification of Oracle Database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from postern.protocols.spec import DialectSpec, ProtocolSpec, ScriptSyntax, TargetKeys

if TYPE_CHECKING:
    from postern.agent.agent_policy import LocalPolicy
    from postern.agent.agent_protocols import Targets
    from postern.gateway.gateway_protocols import Gate, GateParts, OpenWire, WireParts
    from postern.inspection.masking.origins import SessionLineages
    from postern.inspection.masking.statement_facts import StatementFacts
    from postern.inspection.sql.script_spans import ScriptSpans
    from postern.inspection.sql.sql_parser import Parser
    from postern.protocols.clients import NativeClient
    from postern.protocols.gateway_queries import Catalogue, Script
    from postern.protocols.protocol_database_uri import DatabaseUri
    from postern.recording.recording_library import ResultReader
    from postern.recording.recording_rendering import Renderer
    from postern.recording.steps import AnswerReader


def _wires(parts: WireParts) -> OpenWire:
    from postern.protocols.oracledb.oracle_listener import wires

    return wires(parts)


def _gate(parts: GateParts) -> Gate:
    from postern.protocols.oracledb.oracle_listener import OracleGate

    return OracleGate(parts.fronts, decoy_secret=parts.decoy_secret)


def _targets(policy: LocalPolicy, environ: Mapping[str, str]) -> Targets:
    from postern.protocols.oracledb.oracle_target import OracleTargets

    return OracleTargets(policy)


def _login_key(password: str) -> bytes:
    from postern.protocols.oracledb.login.oracle_auth import OracleVerifier

    return OracleVerifier.make(password).dump()


def _script(text: str) -> Script:
    from postern.protocols.oracledb.queries.oracle_script import OracleScript

    return OracleScript(text)


def _parameters(name: str) -> Mapping[str, str]:
    from postern.protocols.oracledb.login.oracle_start import own_options

    return own_options(name)


def _catalogue() -> Catalogue:
    from postern.protocols.oracledb.queries.oracle_catalogue import CATALOGUE

    return CATALOGUE


def _renderer() -> Renderer:
    from postern.protocols.oracledb.recorded.oracle_text_renderer import OracleTextRenderer

    return OracleTextRenderer()


def _results() -> ResultReader:
    from postern.protocols.oracledb.recorded.oracle_tables import OracleResults

    return OracleResults()


def _answers() -> AnswerReader:
    from postern.protocols.oracledb.recorded.oracle_answer_reader import OracleAnswers

    return OracleAnswers()


def _parser() -> Parser:
    from postern.inspection.sql.shared import own
    from postern.protocols.oracledb.dialect.oracle_parser import OracleParser

    return own(OracleParser)


def _lineage() -> SessionLineages:
    from postern.protocols.oracledb.lineage.oracle_lineage import OracleLineage
    from postern.protocols.oracledb.lineage.oracle_session_lineage import OracleSessionLineage

    lineage = OracleLineage()
    return lambda schema: OracleSessionLineage(lineage, schema)


def _facts() -> StatementFacts:
    from postern.protocols.oracledb.dialect.oracle_statement_facts import OracleStatementFacts

    return OracleStatementFacts()


def _split() -> Callable[[str], ScriptSpans]:
    from postern.protocols.oracledb.dialect.oracle_splitting import split_oracle

    return split_oracle


def _uri() -> DatabaseUri:
    from postern.protocols.oracledb.oracle_uri import URI

    return URI


def _client() -> NativeClient:
    from postern.protocols.oracledb.oracle_client import CLIENT

    return CLIENT


ORACLEDB = ProtocolSpec(
    name="oracledb",
    title="Oracle",
    servers="Oracle Database",
    type="database",
    aliases=("oracle",),
    port=7521,
    has_cancel=False,
    keys=TargetKeys(
        1521,
        required=("HOST", "USER"),
        readable=("HOST", "PORT", "USER", "DB", "SID", "SSLMODE", "NATIVE_ENCRYPTION"),
        private=("PASS", "SSLROOTCERT"),
    ),
    syntax=ScriptSyntax.PL_SQL,
    variables={
        "HOST": ("ORACLE_HOST",),
        "PORT": ("ORACLE_PORT",),
        "USER": ("ORACLE_USER", "ORACLE_USERNAME"),
        "PASS": ("ORACLE_PASSWORD", "ORACLE_PWD"),
        "DB": ("ORACLE_SERVICE", "ORACLE_SERVICE_NAME", "ORACLE_DATABASE", "SERVICE_NAME"),
        "SID": ("ORACLE_SID",),
    },
    unsafe_variables=("ORACLE_", "TNS_", "JAVA_TOOL_OPTIONS"),
    preload=(
        "postern.protocols.oracledb.oracle_listener",
        "postern.protocols.oracledb.oracle_target",
    ),
    wires=_wires,
    targets=_targets,
    gate=_gate,
    login_key=_login_key,
    script=_script,
    parameters=_parameters,
    catalogue=_catalogue,
    renderer=_renderer,
    results=_results,
    answers=_answers,
    dialect=DialectSpec(
        name="oracle",
        parser=_parser,
        lineage=_lineage,
        facts=_facts,
        split=_split,
    ),
    uri=_uri,
    client=_client,
)
