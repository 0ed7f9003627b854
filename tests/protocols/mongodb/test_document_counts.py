"""How many documents a held command would change: the filters that are counted, and the counting on a target."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from postern.domain.rules.permit import Permit
from postern.domain.rules.row_count import MOST_ROWS, RowCount
from postern.errors import Unavailable
from postern.gateway.rules.row_count_estimates import MOST_PARTS, CountLimits
from postern.gateway.rules.row_counts import HeldStatement
from postern.protocols.gateway_queries import Row, TargetRefused
from postern.protocols.mongodb.dialect.mongodb_count_plans import count_plans
from postern.protocols.mongodb.mongodb_row_counts import document_counts
from postern.protocols.wire_base import TransactionState
from postern.relay.relay_target import Start, Target


def text_of(**command: Any) -> str:
    return json.dumps({**command, "$db": "shop"})


def update(*parts: dict[str, Any]) -> str:
    return text_of(update="orders", updates=list(parts))


SET = {"$set": {"a": 1}}


@pytest.mark.parametrize(
    ("text", "action", "table", "query", "limit"),
    [
        (update({"q": {"a": 1}, "u": SET, "multi": True}), "update", "shop.orders", {"a": 1}, MOST_ROWS + 1),
        (update({"q": {"a": 1}, "u": SET}), "update", "shop.orders", {"a": 1}, 1),
        (text_of(delete="orders", deletes=[{"q": {}, "limit": 0}]), "delete", "shop.orders", {}, MOST_ROWS + 1),
        (text_of(delete="orders", deletes=[{"q": {}, "limit": 1}]), "delete", "shop.orders", {}, 1),
        (text_of(findAndModify="orders", query={"a": 1}, update=SET), "update", "shop.orders", {"a": 1}, 1),
        (text_of(findandmodify="orders", query={"a": 1}, remove=True), "delete", "shop.orders", {"a": 1}, 1),
        (
            text_of(bulkWrite=1, ops=[{"delete": 0, "filter": {"a": 1}, "multi": True}], nsInfo=[{"ns": "x.y.z"}]),
            "delete", "x.y.z", {"a": 1}, MOST_ROWS + 1,
        ),
    ],
)  # fmt: skip
def test_documents_are_counted_by_the_filter(text: str, action: str, table: str, query: object, limit: int) -> None:
    (plan,) = count_plans(text)
    assert (plan.action, plan.table, plan.why_not) == (action, table, "")
    command = json.loads(plan.query_text(5000))
    database, _, collection = table.partition(".")
    assert command == {"count": collection, "query": query, "limit": limit, "maxTimeMS": 5000, "$db": database}
    assert next(iter(command)) == "count"


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ([{"$out": "x"}], {"query": {}, "limit": MOST_ROWS + 1}),
        ([{"$match": {"a": 1}}, {"$merge": "x"}], {"query": {"$and": [{"a": 1}]}, "limit": MOST_ROWS + 1}),
        (
            [
                {"$match": {"a": 1}},
                {"$sort": {"a": 1}},
                {"$skip": 2},
                {"$limit": 5},
                {"$set": {"b": 1}},
                {"$merge": {"into": "x"}},
            ],
            {"query": {"$and": [{"a": 1}]}, "limit": 5, "skip": 2},
        ),
    ],
)
def test_pipeline_that_writes_is_counted_by_what_it_reads(stages: list[Any], expected: dict[str, Any]) -> None:
    (plan,) = count_plans(text_of(aggregate="orders", pipeline=stages, cursor={}))
    assert plan.table == "shop.x"
    assert json.loads(plan.query_text(1)) == {"count": "orders", **expected, "maxTimeMS": 1, "$db": "shop"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (update({"q": {"$where": "1"}, "u": SET, "multi": True}), "$where runs code"),
        (update({"q": {"$expr": {"$function": {}}}, "u": SET}), "$function runs code"),
        (update({"q": {"a": {"$near": [0, 0]}}, "u": SET}), "$near"),
        (update({"q": {"a": {"$frobnicate": 0}}, "u": SET}), "$frobnicate"),
        (update({"q": {"$expr": {"$eq": ["$a", "$$v"]}}, "u": SET}), "variables"),
        (text_of(aggregate="orders", pipeline=[{"$group": {"_id": "$a"}}, {"$out": "x"}]), "$group"),
        (text_of(aggregate="orders", pipeline=[{"$set": {"a": 1}}, {"$match": {"a": 1}}, {"$out": "x"}]), "$match"),
        (text_of(aggregate=1, pipeline=[{"$documents": []}, {"$out": "x"}]), "$documents"),
    ],
)
def test_part_that_cannot_be_counted_says_why(text: str, why: str) -> None:
    (plan,) = count_plans(text)
    assert why in plan.why_not


@pytest.mark.parametrize(
    "text",
    ["", "x", text_of(find="a"), text_of(drop="a"), text_of(aggregate="a", pipeline=[]), text_of(update="a"),
     text_of(aggregate="a", pipeline=[{"$match": {}}]), '{"update": "a", "update": "b", "$db": "c"}'],
)  # fmt: skip
def test_other_commands_have_no_plan(text: str) -> None:
    assert count_plans(text) == []


# Counting


class Stream:
    """A stream to a target that answers each command."""

    def __init__(self) -> None:
        self.is_closed = False
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    async def read(self, size: int) -> bytes:
        await asyncio.sleep(0)
        return b"\0" * size

    def close(self) -> None:
        self.is_closed = True


class CountReply:
    """A query whose reply is one number, or an error."""

    def __init__(self, statement: str, number: str | None, error: TargetRefused | None) -> None:
        self._statement = statement
        self._number = number
        self.error = error
        self.finished = False

    @property
    def needs(self) -> int:
        return 1

    def start(self) -> bytes:
        return self._statement.encode()

    def feed(self, data: bytes) -> list[Row]:
        self.finished = True
        return [] if self.error is not None else [(f'{{"n": {self._number}, "ok": 1.0}}',)]


class CountingDialer:
    def __init__(self, error: Exception | None = None) -> None:
        self.streams: list[Stream] = []
        self.starts: list[Start] = []
        self.released = 0
        self.cancelled = 0
        self._error = error

    async def dial(self, permit: Permit, start: Start, session_id: UUID) -> Target:
        if self._error is not None:
            raise self._error
        self.starts.append(start)
        self.streams.append(Stream())
        return Target(cast("Any", self.streams[-1]), release=self._release)

    def _release(self) -> None:
        self.released += 1

    async def cancel(self, permit: Permit, target: Target) -> None:
        self.cancelled += 1


Replies = Callable[[dict[str, Any]], str | TargetRefused]
PERMIT = cast("Permit", SimpleNamespace())


async def count(
    dialer: CountingDialer,
    replies: Replies,
    *texts: str,
    limits: CountLimits | None = None,
    standing: TransactionState | None = None,
) -> RowCount | None:
    def make(statement: str) -> CountReply:
        reply = replies(json.loads(statement))
        return (
            CountReply(statement, None, reply)
            if isinstance(reply, TargetRefused)
            else CountReply(statement, reply, None)
        )

    counts = document_counts(dialer, limits, make)
    return await counts.of(PERMIT, Start(), [HeldStatement(text) for text in texts], standing)


async def test_counts_are_shown_for_each_part() -> None:
    dialer = CountingDialer()
    text = update({"q": {"a": 1}, "u": SET, "multi": True}, {"q": {"a": 2}, "u": SET, "upsert": True})
    found = await count(dialer, lambda command: "7" if command["limit"] > 1 else "1", text)
    assert found is not None
    assert [part.said for part in found.parts] == [
        "update shop.orders: 7 rows",
        "update shop.orders: 1 row; it inserts a document if none matches",
    ]
    assert found.notes == ("each part is counted as if the others had not run",)
    assert dialer.starts == [Start(None, {"application": "postern row count"})]
    assert dialer.streams[0].is_closed
    assert dialer.released == 1
    assert dialer.cancelled == 0
    for written in dialer.streams[0].written:
        assert next(iter(json.loads(written))) == "count"


async def test_many_documents_are_more_than_the_limit() -> None:
    found = await count(
        CountingDialer(), lambda command: str(MOST_ROWS + 1), text_of(delete="a", deletes=[{"q": {}, "limit": 0}])
    )
    assert found is not None
    assert found.parts[0].said == "delete shop.a: more than 1,000,000 rows"


async def test_inserts_are_counted_without_the_target() -> None:
    dialer = CountingDialer(Unavailable("never dialled"))
    texts = [
        text_of(insert="a", documents=[{}, {}]),
        text_of(bulkWrite=1, ops=[{"insert": 0}, {"insert": 0}, {"insert": 1}], nsInfo=[{"ns": "x.y"}, {"ns": "x.z"}]),
    ]
    found = await count(dialer, lambda command: "0", *texts)
    assert found is not None
    assert [part.said for part in found.parts] == ["insert shop.a: 2 rows", "insert x.y: 2 rows", "insert x.z: 1 row"]


async def test_command_that_changes_nothing_is_not_counted() -> None:
    assert await count(CountingDialer(), lambda command: "0", text_of(find="a")) is None


@pytest.mark.parametrize(
    ("code", "why"),
    [("50", "counting takes too long"), ("13", "not allowed to read"), ("2", "error 2")],
)
async def test_error_of_the_target_is_the_reason(code: str, why: str) -> None:
    dialer = CountingDialer()
    found = await count(dialer, lambda command: TargetRefused("x", code), update({"q": {}, "u": SET}))
    assert found is not None
    assert why in found.parts[0].said
    assert dialer.released == 1


@pytest.mark.parametrize("error", [Unavailable("down"), TargetRefused("no login", "18"), OSError("reset")])
async def test_target_that_cannot_be_reached_is_no_error(error: Exception) -> None:
    found = await count(CountingDialer(error), lambda command: "0", update({"q": {}, "u": SET}))
    assert found is not None
    assert "the target could not be queried" in found.parts[0].said


@pytest.mark.parametrize("reply", ["", "x", "-1", "null", '"7"'])
async def test_reply_that_is_no_number_ends_the_count(reply: str) -> None:
    dialer = CountingDialer()
    found = await count(dialer, lambda command: reply, update({"q": {}, "u": SET}))
    assert found is not None
    assert found.parts[0].rows is None
    assert dialer.released == 1
    await asyncio.sleep(0)
    assert dialer.cancelled == 1


async def test_long_number_is_read() -> None:
    found = await count(CountingDialer(), lambda command: '{"$numberLong": "7"}', update({"q": {}, "u": SET}))
    assert found is not None
    assert found.rows == 7


async def test_too_many_parts_are_said() -> None:
    text = update(*[{"q": {"a": number}, "u": SET} for number in range(MOST_PARTS + 5)])
    found = await count(CountingDialer(), lambda command: "1", text)
    assert found is not None
    assert len(found.parts) == MOST_PARTS + 1
    assert "more than 20 parts" in found.parts[-1].said
    assert found.rows is None


async def test_waiting_requests_are_bounded() -> None:
    limits = CountLimits(most_waiting=0)
    found = await count(CountingDialer(), lambda command: "1", update({"q": {}, "u": SET}), limits=limits)
    assert found is not None
    assert "busy" in found.parts[0].said


async def test_open_transaction_is_noted() -> None:
    found = await count(
        CountingDialer(),
        lambda command: "1",
        update({"q": {}, "u": SET}),
        standing=TransactionState(in_transaction=True),
    )
    assert found is not None
    assert any("uncommitted" in note for note in found.notes)
