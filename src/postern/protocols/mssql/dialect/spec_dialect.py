"""The functions of SQL Server's `DialectSpec`, for `spec`. Each imports what it returns:

    DialectSpec(name="tsql", parser=tsql_parser, names=tsql_names, lineage=tsql_lineage, facts=tsql_facts,
                split=tsql_split)

There is no check of encodings: the texts of a client are UTF-16, whatever its settings are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from postern.domain.targets.target_schema import TargetSchema
    from postern.inspection.masking.origins import SessionOrigins
    from postern.inspection.masking.statement_facts import StatementFacts
    from postern.inspection.sql.script_spans import ScriptSpans
    from postern.inspection.sql.sql_parser import Parser, SessionParser


def tsql_parser() -> Parser:
    from postern.inspection.sql.shared import own
    from postern.protocols.mssql.dialect.tsql_parser import TSqlParser

    return cast("Parser", own(TSqlParser))


def tsql_names(parser: Parser) -> SessionParser:
    from postern.protocols.mssql.dialect.tsql_parser import TSqlParser
    from postern.protocols.mssql.dialect.tsql_prepared import TSqlPreparedStatements

    assert isinstance(parser, TSqlParser)
    return TSqlPreparedStatements(parser)


def tsql_lineage() -> Callable[[Callable[[], TargetSchema | None]], SessionOrigins]:
    from postern.protocols.mssql.lineage.tsql_lineage import TSqlLineage
    from postern.protocols.mssql.lineage.tsql_session_lineage import TSqlSessionLineage

    lineage = TSqlLineage()
    return lambda schema: TSqlSessionLineage(lineage, schema)


def tsql_facts() -> StatementFacts:
    from postern.protocols.mssql.dialect.tsql_statement_facts import TSqlStatementFacts

    return TSqlStatementFacts()


def tsql_split() -> Callable[[str], ScriptSpans]:
    from postern.protocols.mssql.dialect.tsql_splitting import split_tsql

    return split_tsql
