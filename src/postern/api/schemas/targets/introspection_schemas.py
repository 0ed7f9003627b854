"""What a target says of itself: a test of its connection, and its schema."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from postern.api.schemas.common import Answer


class ConnectionTestAnswer(Answer):
    __test__ = False  # pytest takes it for tests of its own

    success: Literal[True]


class _Bounded(Answer):
    truncated: bool = Field(description="There is more than 1 MiB of it, and the rest is left out")


class DatabasesAnswer(_Bounded):
    databases: list[str]


class SchemaAnswer(Answer):
    name: str
    tables: list[str] = Field(description="Tables, views and foreign tables")


class TablesAnswer(_Bounded):
    schemas: list[SchemaAnswer]


class ColumnAnswer(Answer):
    name: str
    type: str = Field(description="As the database writes it, as in `character varying(40)`")
    nullable: bool


class ColumnsAnswer(_Bounded):
    columns: list[ColumnAnswer]
