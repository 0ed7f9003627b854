"""Scripts whose statements are requests of their own: their previews, their database, and queries in steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.gateway.test_script_judge import RULES, Desk
from tests.support.protocols import postgres_test_messages as pg
from tests.support.unsaved import unsaved_connection
from tests.support.world import World

from postern.domain.rules.script_preview import PreviewOutcome
from postern.domain.secret import Secret
from postern.domain.sessions.script_parameters import BoundScript
from postern.domain.targets.connection import DATABASE_KEY
from postern.errors import Invalid
from postern.gateway import script_client
from postern.gateway.query_spec import QUERY_SPECS
from postern.gateway.script_client import known_database, make_client
from postern.gateway.target_question import query_rows
from postern.protocols.gateway_queries import (
    Query,
    QueryInSteps,
    Row,
    Script,
    ScriptInSteps,
    ScriptRequest,
    TargetRefused,
)
from postern.protocols.postgres.queries.postgres_script import PostgresScript
from postern.protocols.registry import PROTOCOLS
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start
from postern.store.database import Database
from postern.transport.memory import MemoryTransport

BASE = "c2hvcA=="  # shop


class Steps(PostgresScript):
    """Sends each statement by itself; `@` stands for the database."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._database: str | None = ""
        if "nonsense" in text:
            raise Invalid("line 1, column 1: nonsense")

    def use_database(self, name: str | None) -> None:
        self._database = name

    def start(self) -> bytes:
        return self.requests()[0].data

    def requests(self) -> Sequence[ScriptRequest]:
        if self._database is None:
            raise Invalid("its database is unknown")
        return [
            ScriptRequest(match.start(), match.end(), pg.query(text := match[0].replace("@", self._database)), text)
            for match in re.finditer(r"[^; ][^;]*", self._text)
        ]


@pytest.fixture
async def desk(sqlite_database: Database, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(script_client, "QUERY_SPECS", {**QUERY_SPECS, "postgres": _with_steps()})
    return Desk(await World.make(sqlite_database))


def _with_steps() -> Any:
    return replace(PROTOCOLS["postgres"], script=Steps, bound_script=None)


def test_scripts_in_steps_are_recognised() -> None:
    assert isinstance(Steps("select 1"), ScriptInSteps)
    plain: Script = PostgresScript("select 1")
    assert not isinstance(plain, ScriptInSteps)


async def test_preview_judges_every_request_of_the_script(desk: Desk) -> None:
    permit = await desk.permit("postgres", *RULES)
    preview = await desk.preview(permit, "select 1; delete from t; select 'watched'")
    assert preview.judgement.outcome is PreviewOutcome.DENY
    assert [judgement.outcome for judgement in preview.of_parts] == [
        *(PreviewOutcome.ALLOW, PreviewOutcome.DENY, PreviewOutcome.WARN),
    ]
    assert [part.tag for part in preview.analysis.parts] == ["SELECT", "DELETE", "SELECT"]


async def test_preview_of_a_script_that_cannot_be_sent_denies_it_with_the_reason(desk: Desk) -> None:
    permit = await desk.permit("postgres", *RULES)
    judgement = (await desk.preview(permit, "select nonsense")).judgement
    assert judgement.outcome is PreviewOutcome.DENY
    assert judgement.messages[0].message == "line 1, column 1: nonsense"


@pytest.mark.parametrize(
    ("secret", "outcome"),
    [
        ({DATABASE_KEY: Secret("ZmluZQ==")}, PreviewOutcome.ALLOW),
        ({DATABASE_KEY: Secret("d2F0Y2hlZA==")}, PreviewOutcome.WARN),  # its name is in a rule
        ({DATABASE_KEY: Secret("_vault:secret/shop:db")}, PreviewOutcome.DENY),
        ({}, PreviewOutcome.ALLOW),
    ],
)
async def test_preview_knows_the_default_database_unless_it_is_a_reference(
    desk: Desk, secret: dict[str, Secret], outcome: PreviewOutcome
) -> None:
    permit = await desk.permit("postgres", *RULES)
    permit = replace(permit, connection=replace(permit.connection, secret=secret))
    assert (await desk.preview(permit, "select '@'")).judgement.outcome is outcome


def test_default_database_of_a_connection() -> None:
    connection = replace(unsaved_connection("postgres"), secret={DATABASE_KEY: Secret(BASE)})
    assert known_database(connection, Start()) == "shop"
    assert known_database(connection, Start("other")) == "other"
    assert known_database(replace(connection, secret={}), Start()) == ""
    assert known_database(replace(connection, secret={DATABASE_KEY: Secret("_aws:x:y")}), Start()) is None


def test_client_of_a_script_in_steps_is_told_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_client, "QUERY_SPECS", {**QUERY_SPECS, "postgres": _with_steps()})
    client = make_client(unsaved_connection("postgres"), BoundScript("select '@'"), "shop")
    assert client.start() == pg.query("select 'shop'")


class Asks:
    """Asks three times: each answer is one byte, and is a row."""

    def __init__(self) -> None:
        self.finished = False
        self.error: TargetRefused | None = None
        self._left = 3
        self._next = b"?"

    @property
    def needs(self) -> int:
        return 1

    def start(self) -> bytes:
        return self.request()

    def request(self) -> bytes:
        sent, self._next = self._next, b""
        return sent

    def feed(self, data: bytes) -> list[Row]:
        self._left -= 1
        self.finished = not self._left
        self._next = b"" if self.finished else b"?"
        return [(data.decode(),)]


async def test_query_in_steps_sends_each_request_after_the_answer_before() -> None:
    query: Query = Asks()
    assert isinstance(query, QueryInSteps)
    stream = StreamHandshake()
    sent: list[bytes] = []
    transport = MemoryTransport(stream)
    stream.connection_made(transport)

    def write(data: bytes | bytearray | memoryview) -> None:
        sent.append(bytes(data))
        stream.data_received(bytes([64 + len(sent)]))

    transport.write = write  # type: ignore[method-assign]
    assert [row async for row in query_rows(stream, query)] == [("A",), ("B",), ("C",)]
    assert sent == [b"?"] * 3
