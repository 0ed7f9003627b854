"""The protocol specification of SQL Server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from postern.protocols.spec import DialectSpec, ProtocolSpec, ScriptSyntax, database_keys

if TYPE_CHECKING:
    from postern.agent.agent_policy import LocalPolicy
    from postern.agent.agent_protocols import Targets
    from postern.gateway.gateway_protocols import Gate, GateParts, OpenWire, WireParts
    from postern.gateway.rules.row_counts import RowCounter
    from postern.inspection.masking.origins import SessionLineages
    from postern.inspection.masking.statement_facts import StatementFacts
    from postern.inspection.sql.script_spans import ScriptSpans
    from postern.inspection.sql.sql_parser import Parser, SessionParser
    from postern.protocols.clients import NativeClient
    from postern.protocols.gateway_queries import Catalogue, Script
    from postern.protocols.protocol_database_uri import DatabaseUri
    from postern.recording.recording_library import ResultReader
    from postern.recording.recording_rendering import Renderer
    from postern.recording.steps import AnswerReader
    from postern.relay.relay_target import Dialer


def _wires(parts: WireParts) -> OpenWire:
    from postern.protocols.mssql.mssql_listener import wires

    return wires(parts)


def _gate(parts: GateParts) -> Gate:
    from postern.protocols.mssql.mssql_listener import MssqlGate

    return MssqlGate(parts.fronts, parts.certificate, decoy_secret=parts.decoy_secret)


def _row_counts(dialer: Dialer) -> RowCounter:
    from postern.protocols.mssql.mssql_row_counts import mssql_row_counts

    return mssql_row_counts(dialer)


def _targets(policy: LocalPolicy, environ: Mapping[str, str]) -> Targets:
    from postern.protocols.mssql.mssql_target import MssqlTargets

    return MssqlTargets(policy)


def _script(text: str) -> Script:
    from postern.protocols.mssql.queries.mssql_script import MssqlScript

    return MssqlScript(text)


def _parameters(name: str) -> Mapping[str, str]:
    from postern.protocols.mssql.login.mssql_login7 import own_options

    return own_options(name)


def _catalogue() -> Catalogue:
    from postern.protocols.mssql.queries.mssql_catalogue import CATALOGUE

    return CATALOGUE


def _renderer() -> Renderer:
    from postern.protocols.mssql.recorded.mssql_text_renderer import MssqlTextRenderer

    return MssqlTextRenderer()


def _results() -> ResultReader:
    from postern.protocols.mssql.recorded.mssql_tables import MssqlResults

    return MssqlResults()


def _answers() -> AnswerReader:
    from postern.protocols.mssql.recorded.mssql_answer_reader import MssqlAnswers

    return MssqlAnswers()


def _parser() -> Parser:
    from postern.inspection.sql.shared import own
    from postern.protocols.mssql.dialect.tsql_parser import TSqlParser

    return own(TSqlParser)


def _names(parser: Parser) -> SessionParser:
    from postern.protocols.mssql.dialect.tsql_parser import TSqlParser
    from postern.protocols.mssql.dialect.tsql_prepared import TSqlPreparedStatements

    assert isinstance(parser, TSqlParser)
    return TSqlPreparedStatements(parser)


def _lineage() -> SessionLineages:
    from postern.protocols.mssql.lineage.tsql_lineage import TSqlLineage
    from postern.protocols.mssql.lineage.tsql_session_lineage import TSqlSessionLineage

    lineage = TSqlLineage()
    return lambda schema: TSqlSessionLineage(lineage, schema)


def _facts() -> StatementFacts:
    from postern.protocols.mssql.dialect.tsql_statement_facts import TSqlStatementFacts

    return TSqlStatementFacts()


def _split() -> Callable[[str], ScriptSpans]:
    from postern.protocols.mssql.dialect.tsql_splitting import split_tsql

    return split_tsql


def _uri() -> DatabaseUri:
    from postern.protocols.mssql.mssql_uri import URI

    return URI


def _client() -> NativeClient:
    from postern.protocols.mssql.mssql_client import CLIENT

    return CLIENT


_KEYS = database_keys(1433)

MSSQL = ProtocolSpec(
    name="mssql",
    title="SQL Server",
    servers="SQL Server",
    type="database",
    aliases=("sqlserver",),
    port=7014,
    has_cancel=False,
    keys=replace(_KEYS, readable=(*_KEYS.readable, "ENCRYPT")),
    syntax=ScriptSyntax.TSQL,
    variables={
        "HOST": ("SQLCMDSERVER", "MSSQL_HOST"),
        "PORT": ("MSSQL_PORT", "MSSQL_TCP_PORT"),
        "USER": ("SQLCMDUSER", "MSSQL_USER"),
        "PASS": ("SQLCMDPASSWORD", "MSSQL_PASSWORD", "MSSQL_SA_PASSWORD"),
        "DB": ("SQLCMDDBNAME", "MSSQL_DATABASE"),
    },
    password_variable="SQLCMDPASSWORD",  # noqa: S106 - the name of a variable
    unsafe_variables=("SQLCMD",),
    preload=(
        "postern.protocols.mssql.mssql_listener",
        "postern.protocols.mssql.mssql_row_counts",
        "postern.protocols.mssql.mssql_target",
    ),
    wires=_wires,
    targets=_targets,
    gate=_gate,
    script=_script,
    parameters=_parameters,
    row_counts=_row_counts,
    catalogue=_catalogue,
    renderer=_renderer,
    results=_results,
    answers=_answers,
    dialect=DialectSpec(
        name="tsql",
        parser=_parser,
        names=_names,
        lineage=_lineage,
        facts=_facts,
        split=_split,
    ),
    uri=_uri,
    client=_client,
)
