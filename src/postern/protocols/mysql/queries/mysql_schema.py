"""Reading a MySQL or MariaDB target's catalogue as a TargetSchema: the statements, and the conversion of their rows.

It contains everything that the connection's own user can see. MySQL 5.7 and MariaDB 10.2 and later: they may lack JSON
aggregates, so the parts of a table are combined here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from postern.domain.targets.target_schema import Function, Relation, TargetSchema
from postern.errors import ProtocolViolation
from postern.protocols.gateway_queries import Row, tags, text

_PATH = "select database()"

_RELATIONS = """
select table_schema, table_name, case when table_comment like '%#%' then table_comment end
from information_schema.tables"""

_COLUMNS = """
select table_schema, table_name, column_name, nullif(generation_expression, ''),
  case when column_comment like '%#%' then column_comment end, extra like '%INVISIBLE%'
from information_schema.columns order by table_schema, table_name, ordinal_position"""

_VIEWS = "select table_schema, table_name, view_definition from information_schema.views"

_ROUTINES = "select distinct routine_schema, routine_name from information_schema.routines"

QUESTIONS = (_PATH, _RELATIONS, _COLUMNS, _VIEWS, _ROUTINES)
"""Run one after the other on one connection."""

# Stands for a definition that requires SHOW VIEW: no parser accepts it, so such a view is unknown.
UNREADABLE = "a view whose definition is not shown"


def target_schema(answers: Sequence[Sequence[Row]]) -> TargetSchema:
    """Build the schema from the rows of each of QUESTIONS. Raises ProtocolViolation if they do not fit.

    No user-defined function counts as harmless: the server does not enforce what authors declare (READS SQL DATA,
    DETERMINISTIC).
    """
    try:
        path, relations, columns, views, routines = answers
        definitions = {(text(schema), text(name)): definition or UNREADABLE for schema, name, definition in views}
        columns_of: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for schema, table, *column in columns:
            columns_of[text(schema), text(table)].append(tuple(column))
        found_relations = {}
        for schema, name, comment in relations:
            key = text(schema), text(name)
            found_relations[key] = _relation(*key, comment or "", columns_of[key], definitions.get(key, ""))
        functions = [Function(text(schema), text(name), harmless=False) for schema, name in routines]
        return TargetSchema(
            found_relations,
            {(function.schema, function.name): function for function in functions},
            tuple(name for (name,) in path if name),
        )
    except ValueError as error:
        raise ProtocolViolation(f"the target's response to a catalogue query is not valid: {error}") from None


def _relation(schema: str, name: str, comment: str, columns: Sequence[Row], definition: str) -> Relation:
    return Relation(
        schema,
        name,
        tuple(text(column) for column, *_ in columns),
        definition=definition,
        tags=tags(comment),
        column_tags={text(column): tags(comment) for column, _, comment, _ in columns if comment},
        hidden=frozenset(text(column) for column, _, _, hidden in columns if hidden == "1"),
        generated={text(column): expression for column, expression, *_ in columns if expression},
    )
