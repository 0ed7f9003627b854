"""Reading a MySQL or MariaDB target's catalogue as a TargetSchema: the statements, and the conversion of their rows.

It contains everything that the connection's own user can see. MySQL 5.7 and MariaDB 10.2 and later: they may lack JSON
aggregates, so the parts of a table are combined here.
"""

from __future__ import annotations

from collections.abc import Sequence

from postern.domain.targets.target_schema import TargetSchema
from postern.errors import ProtocolViolation
from postern.protocols.gateway_queries import Row, text
from postern.protocols.relation_rows import read_harmful_functions, read_relations

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
        return TargetSchema(
            read_relations(relations, columns, definitions),
            read_harmful_functions(routines),
            tuple(name for (name,) in path if name),
        )
    except ValueError as error:
        raise ProtocolViolation(f"the target's response to a catalogue query is not valid: {error}") from None
