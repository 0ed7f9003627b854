"""Which cells were masked, and by which rule: in recordings, results and timelines of real sessions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.support.gateway import Gateway
from tests.support.mariadb import MariaDbServer
from tests.support.mysql_gateway import ask, connect, mysql_connection, run
from tests.support.postgres import PostgresServer

from postern.api.sessions.result_answers import ResultWriter
from postern.api.sessions.timelines import render_exchange
from postern.domain.identity.credential import Issued
from postern.domain.rules.guardrail import Action, Rule, RuleType
from postern.domain.rules.masking import InfoType, Strategy, TypeGroup
from postern.domain.sessions.session import Session
from postern.interception.events import ClientOutput, Masked
from postern.protocols.postgres.recorded.postgres_type_names import NAMES
from postern.protocols.postgres.wire.postgres_types import ARRAYS

PEOPLE = """
    (1, 'ann@example.com', 1234, 'call 555-123-4567', '4111111111111111'),
    (2, null, 0, 'write to bob@example.com', 'none'),
    (3, 'eve@example.com', 77, 'nothing', '4111111111111111')
"""


def execute(gateway: Gateway, script: str, connection: str) -> Session:
    submitted = gateway.call(gateway.services.sessions.submit(gateway.admin, connection, script, source="127.0.0.1"))
    return gateway.finished(submitted.id, 60)


def results(gateway: Gateway, session: Session) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads("".join(ResultWriter(gateway.services.sessions.results(session)).json()))
    return found


def timeline(gateway: Gateway, session: Session) -> list[dict[str, Any]]:
    return [render_exchange(each) for each in gateway.services.sessions.recordings.exchanges(session)]


def masks_by_cell(result: dict[str, Any]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """The masks of each cell, by row and column."""
    cells: dict[tuple[int, int], list[dict[str, Any]]] = {}
    masks = result["masked"]["masks"]
    for column, first, last, number in result["masked"]["cells"]:
        for row in range(first, last + 1):
            cells.setdefault((row, column), []).append(masks[number])
    return cells


@pytest.fixture(scope="module")
def people(gateway: Gateway, target: PostgresServer, direct: psycopg.Connection) -> Iterator[str]:
    """A connection whose rules mask the column `mail`, salaries, and values in texts."""
    direct.execute("drop table if exists marked_people")
    direct.execute("create table marked_people (id int, mail varchar(60), salary numeric(10,2), note text, card text)")
    direct.execute(f"insert into marked_people values {PEOPLE}".encode())
    connection = gateway.connection("marked", target, redact_enabled=True, redact_types=("CREDIT_CARD",))
    common = {"connection_ids": (str(connection.id),)}
    gateway.masking_rule({"name": "mails", "columns": ("mail",), "strategy": Strategy.HASH, **common})
    gateway.masking_rule({"name": "pay", "columns": ("salary",), "strategy": Strategy.REPLACE, **common})
    found = (
        TypeGroup(
            "CONTACT",
            (
                InfoType.EMAIL_ADDRESS,
                InfoType.PHONE_NUMBER,
            ),
        ),
    )
    gateway.masking_rule({"name": "notes", "groups": found, "strategy": Strategy.PARTIAL, **common})
    yield "marked"
    direct.execute("drop table marked_people")


def test_results_tell_which_cells_were_masked_by_which_rule(gateway: Gateway, people: str) -> None:
    session = execute(gateway, "select id, mail, salary, note, card from marked_people order by id", people)
    (result,) = results(gateway, session)
    assert result["columns"] == ["id", "mail", "salary", "note", "card"]
    assert [(field["name"], field["type"]) for field in result["fields"]] == [
        ("id", "int4"),
        ("mail", "varchar(60)"),
        ("salary", "numeric(10,2)"),
        ("note", "text"),
        ("card", "text"),
    ]
    assert [field["masked"] for field in result["fields"]] == [
        None,
        {"rule": "mails", "strategy": "hash"},
        {"rule": "pay", "strategy": "replace"},
        None,
        None,
    ]
    by_cell = masks_by_cell(result)
    assert {row for row, column in by_cell if column == 1} == {0, 1, 2}
    assert by_cell[0, 3] == [{"rule": "notes", "strategy": "partial", "info_types": ["PHONE_NUMBER"]}]
    assert by_cell[1, 3] == [{"rule": "notes", "strategy": "partial", "info_types": ["EMAIL_ADDRESS"]}]
    assert by_cell[0, 4] == [{"rule": None, "strategy": "replace", "info_types": ["CREDIT_CARD"]}]
    assert (2, 3) not in by_cell
    assert (1, 4) not in by_cell
    assert not [column for _, column in by_cell if column == 0]


def test_attack_marks_do_not_tell_nulls_and_values_that_equal_their_replacement(gateway: Gateway, people: str) -> None:
    """A salary of 0 becomes 0, and a computed column a constant: without a mark, these would be known to be true."""
    script = "select salary, mail is null as missing, max(mail) over () = mail as newest from marked_people order by id"
    (result,) = results(gateway, execute(gateway, script, people))
    assert [row[0] for row in result["rows"]] == ["0", "0", "0"]
    assert result["masked"]["cells"] == [[0, 0, 2, 0], [1, 0, 2, 1], [2, 0, 2, 1]]


def test_every_result_of_a_script_has_masks_of_its_own(gateway: Gateway, people: str) -> None:
    script = """
        select 'ann@example.com' as a; select 'harmless' as a; select 1 as n where false;
        select 'x' as a, 'bob@example.com' as b union all select 'carl@example.com', 'y'
    """
    first, second, third, fourth = results(gateway, execute(gateway, script, people))
    assert [cell[:3] for cell in first["masked"]["cells"]] == [[0, 0, 0]]
    assert second["masked"] == third["masked"] == {"masks": [], "cells": [], "incomplete_from": None}
    assert {tuple(cell[:3]) for cell in fourth["masked"]["cells"]} == {(1, 0, 0), (0, 1, 1)}


def test_timeline_counts_masked_values_by_rule(gateway: Gateway, people: str) -> None:
    with psycopg.connect(gateway.url(people), autocommit=True) as client:
        client.execute("select mail, note from marked_people")
        client.execute("select 1")
        client.execute("select id from marked_people where note like %s", ("%nothing%",))
        with client.cursor() as cursor, cursor.copy("copy marked_people (mail) to stdout") as copied:
            assert b"example" not in b"".join(bytes(piece) for piece in copied)
    told = {each["statement"]: each["masked"] for each in timeline(gateway, gateway.newest_finished(people))}
    assert told["select mail, note from marked_people"] == [
        {"rule": "mails", "strategy": "hash", "info_types": [], "values": 3},
        {"rule": "notes", "strategy": "partial", "info_types": ["EMAIL_ADDRESS", "PHONE_NUMBER"], "values": 2},
    ]
    assert told["select 1"] == []
    assert told["copy marked_people (mail) to stdout"] == [
        {"rule": "mails", "strategy": "hash", "info_types": [], "values": 3}
    ]


def test_rows_in_binary_and_by_cursors_are_marked(gateway: Gateway, people: str) -> None:
    with psycopg.connect(gateway.url(people)) as client:
        client.execute("select mail from marked_people", binary=True)
        with client.cursor("c") as cursor:
            cursor.itersize = 1
            cursor.execute("select mail from marked_people")
            assert len(list(cursor)) == 3
    session = gateway.newest_finished(people)
    masked = [event for event in gateway.records(session.id) if isinstance(event, Masked)]
    assert sum(event.rows for event in masked) == 6


def test_marks_of_a_guardrail_name_it(gateway: Gateway, target: PostgresServer) -> None:
    connection = gateway.connection("marked-by-guardrail", target)
    rule = Rule(RuleType.PATTERN_MATCH, (), "secret-[0-9]+", "codes", action=Action.MASK)
    fields = {"name": "coded", "output": (rule,), "connection_ids": (str(connection.id),)}
    gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    script = "select 'a' as x, 'the secret-17' as y union all select 'secret-3', 'b' union all select 'c', 'd'"
    result, _ = results(gateway, execute(gateway, script, "marked-by-guardrail"))  # and the guardrail's note
    assert masks_by_cell(result) == {
        (0, 1): [{"rule": "coded / codes", "strategy": "replace", "info_types": []}],
        (1, 0): [{"rule": "coded / codes", "strategy": "replace", "info_types": []}],
    }
    assert all(field["masked"] is None for field in result["fields"])


def test_million_masked_cells_stay_small_and_are_read_with_little_memory(gateway: Gateway, people: str) -> None:
    script = "select mail, salary, 'x' as x from marked_people, generate_series(1, 200000)"
    session = execute(gateway, script, people)
    shown = marks = 0
    for event in gateway.records(session.id):
        if isinstance(event, ClientOutput):
            shown += len(event.data)
        elif isinstance(event, Masked):
            marks += 40 + sum(len(mark.rows) + 2 * len(mark.columns) for mark in event.marks)
    assert marks < shown / 100
    (result,) = results(gateway, session)
    assert result["truncated"] is True  # at recording_output_limit, 16 MiB by default
    last = len(result["rows"]) - 1
    assert result["masked"]["cells"] == [[0, 0, last, 0], [1, 0, last, 1]]


def test_sparse_masks_of_many_rows_are_bounded_and_say_so(gateway: Gateway, people: str) -> None:
    script = "select case n % 2 when 0 then 'n' else n || '@example.com' end as a from generate_series(1, 50000) n"
    (result,) = results(gateway, execute(gateway, script, people))
    assert len(result["masked"]["cells"]) == 10_000
    assert result["masked"]["incomplete_from"] == 20_000
    assert result["masked"]["cells"][-1][:3] == [0, 19_998, 19_998]


def test_row_of_all_columns_that_a_target_allows_is_marked(gateway: Gateway, people: str) -> None:
    columns = ", ".join(f"'u{n}@example.com' as c{n}" for n in range(1_600))
    (result,) = results(gateway, execute(gateway, f"select {columns}", people))
    assert len(masks_by_cell(result)) == 1_600


def test_names_of_postgresql_types_are_those_of_the_server(direct: psycopg.Connection) -> None:
    query = "select oid::int, typname, typelem::int from pg_type where oid < 16384"
    by_oid = {oid: (name, element) for oid, name, element in direct.execute(query)}
    assert {oid: name.strip('"') for oid, name in NAMES.items()} == {oid: by_oid[oid][0] for oid in NAMES}
    assert dict(ARRAYS) == {oid: by_oid[oid][1] for oid in ARRAYS}


def test_types_have_the_modifiers_of_their_definition(gateway: Gateway, people: str) -> None:
    wanted = [
        "varchar(20)", "bpchar(7)", "numeric(12,4)", "numeric(5,-2)", "numeric", "timestamp(3)", "timestamptz(0)",
        "time(2)", "interval(4)", "interval", "bit(3)", "varbit(9)", "int4[]", "varchar(5)[]", "numeric(3,1)[]", "bool",
        "jsonb", "uuid", "float8", "bytea", '"char"', "name", "inet", "money", "date",
    ]  # fmt: skip
    script = "select " + ", ".join(f"null::{name}" for name in wanted) + ", null::pg_class"
    (result,) = results(gateway, execute(gateway, script, people))
    assert [field["type"] for field in result["fields"]] == [*wanted, None]


@pytest.fixture(scope="module")
def marked_shop(gateway: Gateway, maria: MariaDbServer) -> str:
    run(maria, "create or replace table shop.marked (id int, mail varchar(60), note text)")
    run(maria, "insert into shop.marked values (1, 'ann@example.com', 'x'), (2, null, 'bob@example.com')")
    connection = mysql_connection(gateway, "marked-shop", maria)
    common = {"connection_ids": (str(connection.id),)}
    gateway.masking_rule({"name": "shop-mails", "columns": ("mail",), "strategy": Strategy.HASH, **common})
    found = (TypeGroup("CONTACT", (InfoType.EMAIL_ADDRESS,)),)
    gateway.masking_rule({"name": "shop-notes", "groups": found, "strategy": Strategy.NULL, **common})
    return "marked-shop"


def test_mysql_results_tell_which_cells_were_masked(gateway: Gateway, marked_shop: str) -> None:
    script = "select id, mail, note from marked order by id; select note from marked where id = 1"
    first, second = results(gateway, execute(gateway, script, marked_shop))
    assert [field["type"] for field in first["fields"]] == ["int", "varchar(60)", "text"]
    assert [field["masked"] for field in first["fields"]] == [None, {"rule": "shop-mails", "strategy": "hash"}, None]
    assert masks_by_cell(first) == {
        (0, 1): [{"rule": "shop-mails", "strategy": "hash", "info_types": []}],
        (1, 1): [{"rule": "shop-mails", "strategy": "hash", "info_types": []}],
        (1, 2): [{"rule": "shop-notes", "strategy": "null", "info_types": ["EMAIL_ADDRESS"]}],
    }
    assert second["masked"]["cells"] == []


def test_timeline_of_mysql_counts_masked_values(gateway: Gateway, marked_shop: str) -> None:
    with connect(gateway, gateway.credential(marked_shop)) as client:
        ask(client, "select mail from marked")
    (told,) = [each for each in timeline(gateway, gateway.newest_finished(marked_shop)) if each["masked"]]
    assert told["masked"] == [{"rule": "shop-mails", "strategy": "hash", "info_types": [], "values": 2}]


def test_names_of_mysql_types_are_those_of_the_definition(gateway: Gateway, maria: MariaDbServer, shop: Issued) -> None:
    wanted = [
        "tinyint", "smallint unsigned", "mediumint", "int unsigned", "bigint", "float", "double", "decimal(10,2)",
        "decimal(10,0) unsigned", "decimal(5,5)", "date", "datetime", "datetime(3)", "time(6)", "timestamp", "year",
        "char(3)", "varchar(20)", "binary(4)", "varbinary(9)", "tinytext", "text", "mediumtext", "longtext", "tinyblob",
        "blob", "mediumblob", "longblob", "enum", "set", "bit(5)", "geometry",
    ]  # fmt: skip
    spelled = {"enum": "enum('a', 'b')", "set": "set('a', 'b')", "timestamp": "timestamp default current_timestamp"}
    columns = ", ".join(f"c{number} {spelled.get(name, name)}" for number, name in enumerate(wanted))
    run(maria, f"create or replace table shop.typed_marks ({columns}) charset utf8mb4")
    (result,) = results(gateway, execute(gateway, "select * from typed_marks", "shop"))
    assert [field["type"] for field in result["fields"]] == wanted
