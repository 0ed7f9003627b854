"""Commands that the gateway itself sends, with replies in chunks and protocol violations of the target."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.protocols.mongodb_test_replies import error, ok, sent_documents
from tests.support.protocols.query_contracts import asked

from postern.errors import ProtocolViolation
from postern.protocols.gateway_queries import QueryInSteps
from postern.protocols.mongodb.queries.mongodb_query import MongodbQuery

FIND = '{"find": "c", "filter": {"a": {"$parameter": 1}}, "$db": "shop"}'


@given(st.lists(st.none() | st.text(max_size=30), min_size=1, max_size=4))
def test_bound_value_is_a_text_and_nothing_else(values: list[str | None]) -> None:
    names = ", ".join(f'"f{number}": {{"$parameter": {number}}}' for number in range(1, len(values) + 1))
    sent = MongodbQuery(f'{{"find": "c", "filter": {{{names}}}, "$db": "shop"}}', values).start()
    (command,) = sent_documents(sent)
    assert list(command["filter"].values()) == values


@pytest.mark.parametrize("value", ['{"$gt": ""}', '"}, "$where": "1', "$where", '{"$parameter": 1}', "{$oid: 'x'}"])
def test_attack_bound_value_with_operators_stays_a_text(value: str) -> None:
    (command,) = sent_documents(MongodbQuery(FIND, [value]).start())
    assert command == {"find": "c", "filter": {"a": value}, "$db": "shop"}


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        (FIND, []),
        (FIND, ["x", "y"]),
        ('{"find": {"$parameter": 0}, "$db": "x"}', ["x"]),
        ('{"find": {"$parameter": "1"}, "$db": "x"}', ["x"]),
        ("{", []),
        ("5", []),
    ],
)
def test_query_whose_values_do_not_match_raises(statement: str, values: list[str]) -> None:
    with pytest.raises(ProtocolViolation):
        MongodbQuery(statement, values).start()


def test_error_has_the_name_of_its_code() -> None:
    for answer, code in ((error("no", 13, "Unauthorized"), "Unauthorized"), (error("no", 8000, ""), "8000")):
        query = MongodbQuery('{"ping": 1, "$db": "admin"}')
        assert asked(query, answer) == ([], b"")
        assert query.error is not None
        assert (query.error.message, query.error.code) == ("no", code)


def test_write_error_is_an_error_of_the_query() -> None:
    query = MongodbQuery('{"ping": 1, "$db": "admin"}')
    query.feed(ok(n=0, writeErrors=[{"index": 0, "code": 121, "errmsg": "Document failed validation"}]))
    assert query.error is not None
    assert query.error.code == "121"


def test_reply_without_a_cursor_is_one_row() -> None:
    for answer, row in ((ok(n=5), '{"n": 5}'), (ok(), "{}"), (ok(db="x", objects=5), '{"db": "x", "objects": 5}')):
        assert MongodbQuery('{"count": "c", "$db": "x"}').feed(answer) == [(row,)]


def test_single_command_has_no_further_steps() -> None:
    assert not isinstance(MongodbQuery('{"ping": 1, "$db": "x"}'), QueryInSteps)
