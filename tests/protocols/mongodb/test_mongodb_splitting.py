"""Scripts cut into statements for previews, with the commands that parsers read."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from postern.domain.rules.script_preview import SyntaxProblem
from postern.domain.sessions.script_parameters import BoundScript, Placeholder
from postern.protocols.mongodb.dialect.mongodb_parser import MongodbParser
from postern.protocols.mongodb.dialect.mongodb_splitting import split_mongodb
from postern.protocols.mongodb.queries.mongodb_script import MongodbScript

SCRIPT = """use shop
// the first
db.users.find({name: 'größe'})
  .limit(5);
show dbs; { "ping": 1 }
"""


def test_statements_have_their_places_and_commands() -> None:
    found = split_mongodb(SCRIPT)
    assert [SCRIPT[start:end] for start, end in found.spans] == [
        "db.users.find({name: 'größe'})\n  .limit(5)",
        "show dbs",
        '{ "ping": 1 }',
    ]
    assert found.problem is None
    requests = MongodbScript(SCRIPT).requests()
    assert [(request.start, request.end) for request in requests] == list(found.spans)
    assert [request.text for request in requests] == [
        '{"find": "users", "filter": {"name": "größe"}, "limit": 5, "$db": "shop"}',
        '{"listDatabases": 1, "nameOnly": false, "$db": "admin"}',
        '{"ping": 1, "$db": "shop"}',
    ]


def test_bulk_write_has_the_place_of_its_statement_for_each_command() -> None:
    text = "db.c.bulkWrite([{insertOne: {document: {}}}, {deleteOne: {filter: {}}}])"
    assert split_mongodb(text).spans == ((0, len(text)),) * 2
    assert [next(iter(json.loads(request.text))) for request in MongodbScript(text).requests()] == ["insert", "delete"]


def test_script_with_an_error_is_one_statement_with_the_errors_place() -> None:
    text = " db.a.drop(); db.b.find(x) "
    found = split_mongodb(text)
    assert found.spans == ((1, len(text) - 1),)
    assert isinstance(found.problem, SyntaxProblem)
    assert found.problem.offset == text.index("x)")


def test_sketch_of_a_script_with_parameters_has_the_same_places() -> None:
    text = "db.c.find({a: :name, b: NumberLong(:id), c: ObjectId(:key)}).limit(:most); db.c.drop()"
    values: dict[str, str | int] = {":name": "x", ":id": 5, ":key": "0" * 24, ":most": 3}
    bound = BoundScript(
        text,
        tuple(
            Placeholder(text.index(name), text.index(name) + len(name), name[1:], str(value), value)
            for name, value in values.items()
        ),
    )
    found = split_mongodb(bound.sketch)
    assert found.problem is None
    assert [(request.start, request.end) for request in MongodbScript(bound).requests()] == list(found.spans)


def test_texts_of_requests_are_what_the_dialects_parser_reads() -> None:
    parser = MongodbParser()
    found = [statement.tag for request in MongodbScript(SCRIPT).requests() for statement in parser.parse(request.text)]
    assert found == ["find", "listDatabases", "ping"]


@given(st.text(max_size=60))
def test_any_text_is_split_into_places_within_it(text: str) -> None:
    for start, end in split_mongodb(text).spans:
        assert 0 <= start < end <= len(text)
