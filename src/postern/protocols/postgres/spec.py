"""The protocol specification of PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from postern.protocols.spec import DialectSpec, ProtocolSpec, ScriptSyntax, database_keys

if TYPE_CHECKING:
    from postern.agent.agent_policy import LocalPolicy
    from postern.agent.agent_protocols import Targets
    from postern.domain.sessions.script_parameters import BoundScript
    from postern.gateway.gateway_protocols import Gate, GateParts, OpenWire, WireParts
    from postern.gateway.rules.row_counts import RowCounter
    from postern.inspection.masking.origins import SessionLineages
    from postern.inspection.masking.statement_facts import StatementFacts
    from postern.inspection.sql.script_spans import ScriptSpans
    from postern.inspection.sql.sql_parser import Parser, SessionParser
    from postern.interception.pipeline import Interceptor
    from postern.protocols.clients import NativeClient
    from postern.protocols.gateway_queries import Catalogue, Script
    from postern.protocols.protocol_database_uri import DatabaseUri
    from postern.recording.recording_library import ResultReader
    from postern.recording.recording_rendering import Renderer
    from postern.recording.steps import AnswerReader
    from postern.relay.relay_target import Dialer


def _wires(parts: WireParts) -> OpenWire:
    from postern.protocols.postgres.postgres_listener import wires

    return wires(parts)


def _gate(parts: GateParts) -> Gate:
    from postern.protocols.postgres.postgres_listener import PostgresGate

    return PostgresGate(parts.fronts, parts.signals, decoy_secret=parts.decoy_secret)


def _row_counts(dialer: Dialer) -> RowCounter:
    from postern.protocols.postgres.postgres_row_counts import postgres_row_counts

    return postgres_row_counts(dialer)


def _targets(policy: LocalPolicy, environ: Mapping[str, str]) -> Targets:
    from postern.protocols.postgres.postgres_target import PostgresTargets

    return PostgresTargets(policy)


def _script(text: str) -> Script:
    from postern.protocols.postgres.queries.postgres_script import PostgresScript

    return PostgresScript(text)


def _bound_script(script: BoundScript) -> Script:
    from postern.protocols.postgres.dialect.postgres_placeholders import number_placeholders
    from postern.protocols.postgres.queries.postgres_script import BoundPostgresScript

    return BoundPostgresScript(number_placeholders(script))


def _split() -> Callable[[str], ScriptSpans]:
    from postern.inspection.sql.postgres.postgres_splitting import split_postgres

    return split_postgres


def _parameters(name: str) -> Mapping[str, str]:
    return {"application_name": name, "client_encoding": "UTF8"}


def _catalogue() -> Catalogue:
    from postern.protocols.postgres.queries.postgres_catalogue import CATALOGUE

    return CATALOGUE


def _renderer() -> Renderer:
    from postern.protocols.postgres.recorded.postgres_text_renderer import PostgresTextRenderer

    return PostgresTextRenderer()


def _results() -> ResultReader:
    from postern.protocols.postgres.recorded.postgres_tables import PostgresResults

    return PostgresResults()


def _answers() -> AnswerReader:
    from postern.protocols.postgres.recorded.postgres_answer_reader import PostgresAnswers

    return PostgresAnswers()


def _parser() -> Parser:
    from postern.inspection.sql.shared import own
    from postern.protocols.postgres.dialect.postgres_parser import PostgresParser

    return own(PostgresParser)


def _names(parser: Parser) -> SessionParser:
    from postern.protocols.postgres.dialect.postgres_parser import PostgresParser
    from postern.protocols.postgres.dialect.postgres_prepared import PreparedStatements

    assert isinstance(parser, PostgresParser)
    return PreparedStatements(parser)


def _encodings(parser: Parser) -> Interceptor:
    from postern.protocols.postgres.dialect.postgres_encodings import ClientEncodings
    from postern.protocols.postgres.dialect.postgres_parser import PostgresParser

    assert isinstance(parser, PostgresParser)
    return ClientEncodings(parser)


def _lineage() -> SessionLineages:
    from postern.protocols.postgres.lineage.postgres_lineage import Lineage
    from postern.protocols.postgres.lineage.postgres_session_lineage import SessionLineage

    lineage = Lineage()
    return lambda schema: SessionLineage(lineage, schema)


def _facts() -> StatementFacts:
    from postern.protocols.postgres.dialect.postgres_statement_facts import PostgresStatementFacts

    return PostgresStatementFacts()


def _uri() -> DatabaseUri:
    from postern.protocols.postgres.postgres_uri import URI

    return URI


def _client() -> NativeClient:
    from postern.protocols.postgres.postgres_client import CLIENT

    return CLIENT


POSTGRES = ProtocolSpec(
    name="postgres",
    title="PostgreSQL",
    servers="PostgreSQL",
    type="database",
    aliases=("postgresql",),
    port=7432,
    keys=database_keys(5432),
    syntax=ScriptSyntax.DOLLAR_QUOTES,
    variables={
        "HOST": ("PGHOST",),
        "PORT": ("PGPORT",),
        "USER": ("PGUSER",),
        "PASS": ("PGPASSWORD",),
        "DB": ("PGDATABASE",),
        "SSLMODE": ("PGSSLMODE",),
        "SSLROOTCERT": ("PGSSLROOTCERT",),
    },
    password_variable="PGPASSWORD",  # noqa: S106 - the name of a variable
    unsafe_variables=("PSQL", "PGHOST", "PGPORT", "PGSERVICE", "PGSYSCONF", "PGOPTIONS", "PGSSL"),
    file_functions=(
        *("pg_read_file()", "pg_read_binary_file()", "pg_ls_dir()", "pg_stat_file()", "lo_import()"),
        *("lo_export()", "pg_file_write()", "dblink()", "dblink_exec()", "dblink_connect()"),
    ),
    preload=(
        "postern.protocols.postgres.postgres_listener",
        "postern.protocols.postgres.postgres_row_counts",
        "postern.protocols.postgres.postgres_target",
    ),
    wires=_wires,
    targets=_targets,
    gate=_gate,
    row_counts=_row_counts,
    script=_script,
    bound_script=_bound_script,
    parameters=_parameters,
    catalogue=_catalogue,
    renderer=_renderer,
    results=_results,
    answers=_answers,
    dialect=DialectSpec(
        name="postgres",
        parser=_parser,
        names=_names,
        encodings=_encodings,
        lineage=_lineage,
        facts=_facts,
        split=_split,
    ),
    uri=_uri,
    client=_client,
)
