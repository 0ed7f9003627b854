"""SELECT, INSERT, UPDATE, DELETE and MERGE: their answers, the tables and the variables that they fill."""

from __future__ import annotations

from sqlglot import exp

from postern.inspection.lineage.scope import NOTHING, Out, merge_sources, union
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.inspection.sql.sql_tokens import SqlToken, UnreadableSql, dotted_name, key_at, word
from postern.protocols.mssql.dialect.tsql_exec import parse_exec
from postern.protocols.mssql.dialect.tsql_plain import plain_query
from postern.protocols.mssql.lineage.tsql_calls import read_call
from postern.protocols.mssql.lineage.tsql_changes import TsqlChange
from postern.protocols.mssql.lineage.tsql_memory import LOST
from postern.protocols.mssql.lineage.tsql_names import column_name
from postern.protocols.mssql.lineage.tsql_outputs import OutputClause, without_output
from postern.protocols.mssql.lineage.tsql_queries import TsqlQueries
from postern.protocols.mssql.lineage.tsql_reading import NO_NAMES, RunText, TsqlReading
from postern.protocols.mssql.lineage.tsql_spelling import spell_query


def read_query(reading: TsqlReading, tokens: list[SqlToken], verb: str, run: RunText) -> None:
    """Analyse a statement that is a query or a change."""
    plain, output = without_output(plain_query(tokens, reading.catalogue.schema), verb)
    call_at = next((at for at, token in enumerate(plain) if token.key in ("EXEC", "EXECUTE") and at > 1), 0)
    if verb == "INSERT" and call_at:
        _insert_rows_of_call(reading, plain, call_at, run)
        if output is not None:
            reading.answer(LOST)
        return
    spelled = spell_query(plain, verb, reading.is_pure)
    queries = TsqlQueries(reading.context(), spelled)
    if verb == "SELECT":
        _select(reading, spelled.tree, queries)
        return
    change = TsqlChange(reading, queries, spelled.tree)
    change.write()
    if output is not None:
        _read_output(reading, change, output)


def _select(reading: TsqlReading, tree: exp.Expr, queries: TsqlQueries) -> None:
    select = tree
    while isinstance(select, exp.Subquery):
        select = select.this
    variables = [name for value in getattr(select, "expressions", ()) if (name := queries.assigned_variable(value))]
    outs = reading.resolve(queries.query(tree))
    first = select
    while isinstance(first, exp.SetOperation):
        first = first.this
    into = first.args.get("into")
    if isinstance(into, exp.Into):
        table = queries.table_name(into.this)
        if table is None:
            raise UnreadableSql("the table that it creates is not understood")
        columns = tuple([Out(out.name, union([out.sources, reading.control]), out.many) for out in outs])
        reading.memory.make(table.name, columns)
    elif not variables:
        reading.answer(tuple(outs))
    elif reading.control != NOTHING:
        for name in variables:
            reading.variables.assign(fold_identifier(name), reading.control)


def _read_output(reading: TsqlReading, change: TsqlChange, output: OutputClause) -> None:
    """Analyse OUTPUT, whose columns are an answer, or go into a table."""
    spelled = spell_query([word("SELECT"), *output.columns], "SELECT", reading.is_pure)
    queries = TsqlQueries(reading.context(), spelled)
    outs = tuple(reading.resolve(change.returning(queries.targets(spelled.tree.expressions))))
    if change.target is None:
        outs = LOST
    if not output.into:
        reading.answer(outs)
        return
    names = output.into_columns or NO_NAMES
    if len(names) == len(outs) and not any(out.many for out in outs):
        for name, out in zip(names, outs, strict=True):
            reading.write(output.into, out.sources, (column_name(name),))
    else:
        reading.write(output.into, merge_sources(outs))


def _insert_rows_of_call(reading: TsqlReading, tokens: list[SqlToken], call_at: int, run: RunText) -> None:
    """Analyse INSERT … EXEC: the answers go into the table."""
    place = 1 + (key_at(tokens, 1) == "INTO")
    parts, _ = dotted_name(tokens, place)
    name = parts[-1] if parts else tokens[place].text
    before, reading.answers = reading.answers, {}
    read_call(reading, parse_exec(tokens[call_at:]), run)
    answers, reading.answers = reading.answers, before
    reading.write(name, merge_sources([out for outs in answers for out in outs]))
