"""Reading an Oracle target's catalogue as a TargetSchema: the statements, and the conversion of their rows.

It contains everything that the connection's own user can see, but for what Oracle brings along. Columns with long
texts (LONG) are not read: instead of the query of a materialized view and of a view with more than 4,000 characters,
and of the expression of a virtual column, there is a text that no parser accepts. So these are of unknown origin.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.errors import ProtocolViolation
from postern.protocols.gateway_queries import Row, text
from postern.protocols.relation_rows import read_harmful_functions, read_relations

# Schemas of Oracle's own.
NOT_OWN: Final = "not in (select username from all_users where oracle_maintained = 'Y')"

_PATH = "select sys_context('USERENV', 'CURRENT_SCHEMA') from dual"

_RELATIONS = f"select owner, table_name, comments from all_tab_comments where owner {NOT_OWN}"  # noqa: S608 - texts of this module

_COLUMNS = f"""
select c.owner, c.table_name, c.column_name, c.virtual_column, m.comments, c.hidden_column
from all_tab_cols c
  left join all_col_comments m
    on m.owner = c.owner and m.table_name = c.table_name and m.column_name = c.column_name
where c.owner {NOT_OWN} and c.user_generated = 'YES'
order by c.owner, c.table_name, c.internal_column_id"""  # noqa: S608 - texts of this module

_VIEWS = f"select owner, view_name, text_vc, text_length from all_views where owner {NOT_OWN}"  # noqa: S608 - texts of this module

_COPIES = f"select owner, mview_name from all_mviews where owner {NOT_OWN}"  # noqa: S608 - texts of this module

_ROUTINES = f"""
select distinct owner, object_name from all_procedures
where owner {NOT_OWN} and object_type in ('FUNCTION', 'PROCEDURE', 'PACKAGE', 'TYPE')"""  # noqa: S608 - texts of this module

# Those of tables of another database are unknown.
_SYNONYMS = f"""
select s.owner, s.synonym_name, s.table_owner, s.table_name, c.column_name
from all_synonyms s
  left join all_tab_columns c on c.owner = s.table_owner and c.table_name = s.table_name
where s.table_owner {NOT_OWN} and s.db_link is null
order by s.owner, s.synonym_name, c.column_id"""  # noqa: S608 - texts of this module

QUESTIONS: Final = (_PATH, _RELATIONS, _COLUMNS, _VIEWS, _COPIES, _ROUTINES, _SYNONYMS)
"""Run one after the other on one connection."""

# Stands for a definition that is not read: no parser accepts it.
UNREADABLE: Final = "a view whose definition is not read"
UNREADABLE_COLUMN: Final = "an expression that is not read"
PUBLIC: Final = "PUBLIC"
_SHOWN: Final = 4_000  # characters of a view's text


def target_schema(answers: Sequence[Sequence[Row]]) -> TargetSchema:
    """Build the schema from the rows of each of QUESTIONS. Raises ProtocolViolation if they do not fit.

    No user-defined function counts as harmless: functions change data without a declaration.
    """
    try:
        path, relations, columns, views, copies, routines, synonyms = answers
        definitions = {(text(owner), text(name)): UNREADABLE for owner, name in copies}
        definitions |= {(text(owner), text(name)): _definition(query, size) for owner, name, query, size in views}
        return TargetSchema(
            _synonyms(synonyms) | read_relations(relations, map(_column, columns), definitions),
            read_harmful_functions(routines),
            (*(text(schema) for (schema,) in path), PUBLIC),
        )
    except ValueError as error:
        raise ProtocolViolation(f"the target's response to a catalogue query is not valid: {error}") from None


def _definition(query: str | None, size: str | None) -> str:
    return query if query and size and int(size) <= _SHOWN else UNREADABLE


def _column(row: Row) -> Row:
    """Return a row as `read_relations` takes it."""
    owner, table, name, virtual, comment, hidden = row
    return owner, table, name, UNREADABLE_COLUMN if virtual == "YES" else None, comment, "1" if hidden == "YES" else "0"


def _synonyms(rows: Sequence[Row]) -> dict[tuple[str, str], Relation]:
    """Return each synonym as a view of all columns of its table. One without columns is that of something else."""
    columns: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    for owner, name, table_owner, table, column in rows:
        key = text(owner), text(name), text(table_owner), text(table)
        columns[key] += [column] if column else []
    return {
        (owner, name): Relation(
            owner,
            name,
            tuple(names),
            definition=f"SELECT * FROM {_quote(base_owner)}.{_quote(base)}",  # noqa: S608 - parsed, never run
        )
        for (owner, name, base_owner, base), names in columns.items()
        if names
    }


def _quote(name: str) -> str:
    return f'"{name}"'
