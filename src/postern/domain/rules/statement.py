"""What a statement of a query language would do, in terms that rules use for every dialect."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Effect(StrEnum):
    """The effects of a statement. One may have several: `explain analyze delete` reads and writes."""

    READ = "read"
    WRITE = "write"  # rows, large objects, sequences
    DDL = "ddl"
    GRANT = "grant"  # privileges, roles and their passwords, owners, policies
    SESSION = "session"  # settings, transactions, cursors, names of prepared statements, locks
    ADMIN = "admin"  # the server: its files, programs, settings, other sessions, replication
    UNKNOWN = "unknown"  # could not be parsed, or what it does cannot be known from its text


class ObjectKind(StrEnum):
    SCHEMA = "schema"
    TABLE = "table"  # tables, views, foreign tables, sequences: whatever stands in the place of a table
    FUNCTION = "function"  # and procedures
    PATH = "path"  # of a URL


@dataclass(frozen=True, slots=True)
class ObjectName:
    """A name as the server would fold it: where it folds to lower case, `Users` is users, `"Users"` is Users.
    `schema` is empty where the statement names none; for a schema itself, `name` is its name. A path is decoded."""

    kind: ObjectKind
    name: str
    schema: str = ""


# What touches objects without naming them: DROP OWNED, VACUUM of all tables, the statistics of any column.
EVERYTHING = ObjectName(ObjectKind.SCHEMA, "*")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a text, with all that is inside of it: sub-queries, CTEs, what EXPLAIN, PREPARE, COPY and
    cursors hold.

    `tag` is what the server would call it (`DELETE`, `CREATE TABLE`). `without_where` tells that an UPDATE or a DELETE
    anywhere in it has no condition, or one that is always true; `reason` says why its effects have UNKNOWN among them,
    in words for users. `scans` are the tables (and views) of the target's own all of whose rows may be in its answer,
    or in what it writes: no condition that names a column, no limit on the number of rows and no aggregate that makes
    one value of them stands between, in any query on the way. Of an EXPLAIN, only where it runs what it explains.
    `untraced` says why `objects` may not be all that it touches, such as a view with an unknown definition.
    `is_view_calling`: a view that it reads calls a function whose effect is unknown.
    """

    tag: str
    effects: frozenset[Effect]
    objects: frozenset[ObjectName] = frozenset()
    without_where: bool = False
    reason: str = ""
    scans: frozenset[ObjectName] = frozenset()
    untraced: str = ""
    is_view_calling: bool = False
