"""Reading a SQL Server target's catalogue as a TargetSchema: the statements, and the conversion of their rows.

It contains everything that the connection's own user can see in the connection's database. Objects of other databases
are unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.errors import ProtocolViolation
from postern.protocols.gateway_queries import Row, text
from postern.protocols.relation_rows import read_harmful_functions, read_relations

_PATH = "select db_name(), schema_name()"

# What a tool stores as the description of a table or column.
_DESCRIPTION = "p.class = 1 and p.name = 'MS_Description' and p.major_id = o.object_id"

_RELATIONS = f"""
select s.name, o.name, cast(p.value as nvarchar(4000))
from sys.objects o
  join sys.schemas s on s.schema_id = o.schema_id
  left join sys.extended_properties p on {_DESCRIPTION} and p.minor_id = 0
where o.type in ('U', 'V') and o.is_ms_shipped = 0"""  # noqa: S608 - texts of this module

_COLUMNS = f"""
select s.name, o.name, c.name, k.definition, cast(p.value as nvarchar(4000)), c.is_hidden
from sys.columns c
  join sys.objects o on o.object_id = c.object_id
  join sys.schemas s on s.schema_id = o.schema_id
  left join sys.computed_columns k on k.object_id = c.object_id and k.column_id = c.column_id
  left join sys.extended_properties p on {_DESCRIPTION} and p.minor_id = c.column_id
where o.type in ('U', 'V') and o.is_ms_shipped = 0
order by s.name, o.name, c.column_id"""  # noqa: S608 - texts of this module

_VIEWS = """
select s.name, o.name, m.definition
from sys.objects o
  join sys.schemas s on s.schema_id = o.schema_id
  left join sys.sql_modules m on m.object_id = o.object_id
where o.type = 'V' and o.is_ms_shipped = 0"""

_ROUTINES = """
select s.name, o.name from sys.objects o join sys.schemas s on s.schema_id = o.schema_id
where o.type in ('AF', 'FN', 'FS', 'FT', 'IF', 'P', 'PC', 'RF', 'TF', 'X') and o.is_ms_shipped = 0"""

# The columns of an object in another database are not known.
_SYNONYMS = """
select s.name, y.name, y.base_object_name, c.name
from sys.synonyms y
  join sys.schemas s on s.schema_id = y.schema_id
  left join sys.columns c on c.object_id = object_id(y.base_object_name)
order by s.name, y.name, c.column_id"""

QUESTIONS = (_PATH, _RELATIONS, _COLUMNS, _VIEWS, _ROUTINES, _SYNONYMS)
"""Run one after the other on one connection."""

# Stands for a definition that is encrypted, or needs VIEW DEFINITION: no parser accepts it, so such a view is unknown.
UNREADABLE = "a view whose definition is not shown"


def target_schema(answers: Sequence[Sequence[Row]]) -> TargetSchema:
    """Build the schema from the rows of each of QUESTIONS. Raises ProtocolViolation if they do not fit.

    No user-defined function counts as harmless: procedures change data without a declaration.
    """
    try:
        path, relations, columns, views, routines, synonyms = answers
        definitions = {(text(schema), text(name)): definition or UNREADABLE for schema, name, definition in views}
        return TargetSchema(
            read_relations(relations, columns, definitions) | _synonyms(synonyms),
            read_harmful_functions(routines),
            tuple(schema for _, schema in path if schema),
            database=next((database for database, _ in path if database), ""),
        )
    except ValueError as error:
        raise ProtocolViolation(f"the target's response to a catalogue query is not valid: {error}") from None


def _synonyms(rows: Sequence[Row]) -> dict[tuple[str, str], Relation]:
    """Return each synonym as a view of all columns of its object. One without columns is that of a procedure, or of
    another database."""
    columns: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for schema, name, base, column in rows:
        key = text(schema), text(name), text(base)
        columns[key] += [column] if column else []
    return {
        (schema, name): Relation(schema, name, tuple(names), definition=" ".join(("SELECT * FROM", base)))
        for (schema, name, base), names in columns.items()
    }
