"""What a whole schema costs, and what is left of one that is cut."""

from __future__ import annotations

import json

import pytest

from postern.domain.targets.target_task import TargetTaskKind
from postern.protocols.gateway_queries import Catalogue, Row
from postern.protocols.mysql.queries.mysql_catalogue import CATALOGUE as MYSQL_CATALOGUE
from postern.protocols.postgres.queries.postgres_catalogue import CATALOGUE as POSTGRES_CATALOGUE

ROWS: list[Row] = [
    ("0", "shop", None, None, None, None, "0"),
    *(("1", f"größe {number}", None, None, None, None, "0") for number in range(3)),
    *(("2", f"schema {table // 2}", f"table {table}", "v", None, None, "0") for table in range(6)),
    *(
        ("3", f"schema {table // 2}", f"table {table}", f'"{n}"', "text", "t", str(n))
        for table in range(6)
        for n in range(9)
    ),
]


@pytest.mark.parametrize("catalogue", [POSTGRES_CATALOGUE, MYSQL_CATALOGUE])
@pytest.mark.parametrize("count", [0, 1, 4, 5, 10, 11, len(ROWS)])
def test_answer_is_never_larger_than_the_cost_of_its_rows(catalogue: Catalogue, count: int) -> None:
    question = catalogue.target_tasks[TargetTaskKind.SCHEMA]
    nothing = len(json.dumps(question.shape([])))
    answer = len(json.dumps(question.shape(ROWS[:count]), ensure_ascii=False).encode())
    assert answer <= nothing + sum(map(question.cost, ROWS[:count]))


def test_names_of_schema_and_table_are_counted_once_and_not_for_every_column() -> None:
    question = POSTGRES_CATALOGUE.target_tasks[TargetTaskKind.SCHEMA]
    assert question.cost(("3", "s" * 1000, "t" * 1000, "a", "text", "t", "1")) < 200


def test_schema_that_is_cut_keeps_all_tables() -> None:
    question = POSTGRES_CATALOGUE.target_tasks[TargetTaskKind.SCHEMA]
    schemas = question.shape(ROWS[:15])["schemas"]
    tables = [table for schema in schemas for table in schema["tables"]]
    assert [len(table["columns"]) for table in tables] == [5, 0, 0, 0, 0, 0]


def test_column_of_a_table_created_meanwhile_is_left_out() -> None:
    question = MYSQL_CATALOGUE.target_tasks[TargetTaskKind.SCHEMA]
    assert question.shape([("3", "s", "new", "a", "int", "YES", "1")])["schemas"] == []
