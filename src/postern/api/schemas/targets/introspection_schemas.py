"""Bodies about targets: a test of a connection, and its schema."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from postern.api.schemas.common import Answer


class ConnectionTestAnswer(Answer):
    __test__ = False  # pytest would collect it as tests

    success: Literal[True]


class _Bounded(Answer):
    truncated: bool = Field(description="It is larger than 1 MiB, and the rest is left out")


class DatabasesAnswer(_Bounded):
    databases: list[str]


class SchemaAnswer(Answer):
    name: str
    tables: list[str] = Field(description="Tables, views and foreign tables")


class TablesAnswer(_Bounded):
    schemas: list[SchemaAnswer]


class ColumnAnswer(Answer):
    name: str
    type: str = Field(description="As the database writes it, such as `character varying(40)`")
    nullable: bool


class ColumnsAnswer(_Bounded):
    columns: list[ColumnAnswer]


class RelationAnswer(Answer):
    name: str
    kind: Literal["table", "view", "materialized_view", "foreign_table"]
    columns: list[ColumnAnswer] = Field(description="In the table's own order")


class RelationsAnswer(Answer):
    name: str
    tables: list[RelationAnswer]


class WholeSchemaAnswer(Answer):
    """All names of a database. If it is too large, it still has the tables, and the columns of the first ones."""

    database: str | None = Field(description="The database that was read; null if there is no default database")
    databases: list[str] = Field(description="Databases that the connection's user can connect to")
    schemas: list[RelationsAnswer]
    truncated: bool = Field(description="It is larger than 5 MiB, and the rest is left out")
