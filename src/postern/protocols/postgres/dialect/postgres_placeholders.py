"""Placeholders as PostgreSQL has them: `$1`, numbered in each statement, since each binds its own values."""

from __future__ import annotations

from postern.domain.sessions.script_parameters import BoundScript
from postern.inspection.sql.postgres.postgres_splitting import split_postgres

BoundStatement = tuple[str, tuple[str | None, ...]]  # text and values


def number_placeholders(script: BoundScript) -> list[BoundStatement]:
    """Return each statement with the values of its placeholders.

    `:name` is as long as `$1` or longer, and is filled with blanks, so that positions in errors are those of the
    script. A script that cannot be parsed is sent whole: the server says why.
    """
    return [_number(script.part(start, end)) for start, end in split_postgres(script.sketch).spans]


def _number(statement: BoundScript) -> BoundStatement:
    values = {place.name: place.value for place in statement.placeholders}
    numbers = {name: number for number, name in enumerate(values, 1)}
    return statement.fill(lambda place: f"${numbers[place.name]}"), tuple(values.values())
