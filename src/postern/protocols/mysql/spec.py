"""The protocol specification of MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from postern.protocols.spec import DialectSpec, ProtocolSpec, ScriptSyntax, database_keys

if TYPE_CHECKING:
    from postern.agent.agent_policy import LocalPolicy
    from postern.agent.agent_protocols import Targets
    from postern.gateway.gateway_protocols import Gate, GateParts, OpenWire, WireParts
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


def _wires(parts: WireParts) -> OpenWire:
    from postern.protocols.mysql.mysql_listener import wires

    return wires(parts)


def _gate(parts: GateParts) -> Gate:
    from postern.protocols.mysql.mysql_listener import MysqlGate

    return MysqlGate(parts.fronts, version=parts.settings.mysql_version, decoy_secret=parts.decoy_secret)


def _targets(policy: LocalPolicy, environ: Mapping[str, str]) -> Targets:
    from postern.protocols.mysql.mysql_target import MysqlTargets

    return MysqlTargets(policy)


def _script(text: str) -> Script:
    from postern.protocols.mysql.queries.mysql_script import MysqlScript

    return MysqlScript(text)


def _split() -> Callable[[str], ScriptSpans]:
    from postern.protocols.mysql.dialect.mysql_splitting import split_mysql

    return split_mysql


def _parameters(name: str) -> Mapping[str, str]:
    from postern.protocols.mysql.login.mysql_client_options import own

    return own(name)


def _catalogue() -> Catalogue:
    from postern.protocols.mysql.queries.mysql_catalogue import CATALOGUE

    return CATALOGUE


def _renderer() -> Renderer:
    from postern.protocols.mysql.recorded.mysql_text_renderer import MysqlTextRenderer

    return MysqlTextRenderer()


def _results() -> ResultReader:
    from postern.protocols.mysql.recorded.mysql_tables import MysqlResults

    return MysqlResults()


def _answers() -> AnswerReader:
    from postern.protocols.mysql.recorded.mysql_answer_reader import MysqlAnswers

    return MysqlAnswers()


def _parser() -> Parser:
    from postern.inspection.sql.shared import own
    from postern.protocols.mysql.dialect.mysql_parser import MySqlParser

    return own(MySqlParser)


def _names(parser: Parser) -> SessionParser:
    from postern.protocols.mysql.dialect.mysql_parser import MySqlParser
    from postern.protocols.mysql.dialect.mysql_prepared import MySqlPreparedStatements

    assert isinstance(parser, MySqlParser)
    return MySqlPreparedStatements(parser)


def _encodings(parser: Parser) -> Interceptor:
    from postern.protocols.mysql.dialect.mysql_encodings import MySqlEncodings

    return MySqlEncodings()


def _lineage() -> SessionLineages:
    from postern.protocols.mysql.lineage.mysql_lineage import MySqlLineage
    from postern.protocols.mysql.lineage.mysql_session_lineage import MySqlSessionLineage

    lineage = MySqlLineage()
    return lambda schema: MySqlSessionLineage(lineage, schema)


def _facts() -> StatementFacts:
    from postern.protocols.mysql.dialect.mysql_statement_facts import MysqlStatementFacts

    return MysqlStatementFacts()


def _uri() -> DatabaseUri:
    from postern.protocols.mysql.mysql_uri import URI

    return URI


def _client() -> NativeClient:
    from postern.protocols.mysql.mysql_client import CLIENT

    return CLIENT


MYSQL = ProtocolSpec(
    name="mysql",
    title="MySQL",
    servers="MySQL and MariaDB",
    type="database",
    aliases=("mariadb",),
    port=7306,
    keys=database_keys(3306),
    syntax=ScriptSyntax.BACKSLASH_ESCAPES,
    variables={
        "HOST": ("MYSQL_HOST",),
        "PORT": ("MYSQL_TCP_PORT",),
        "USER": ("MYSQL_USER",),
        "PASS": ("MYSQL_PWD", "MYSQL_PASSWORD"),
        "DB": ("MYSQL_DATABASE",),
    },
    password_variable="MYSQL_PWD",  # noqa: S106 - the name of a variable
    unsafe_variables=("MYSQL_", "LIBMYSQL"),
    preload=(
        "postern.protocols.mysql.mysql_listener",
        "postern.protocols.mysql.mysql_target",
    ),
    wires=_wires,
    targets=_targets,
    gate=_gate,
    script=_script,
    parameters=_parameters,
    catalogue=_catalogue,
    renderer=_renderer,
    results=_results,
    answers=_answers,
    dialect=DialectSpec(
        name="mysql",
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
