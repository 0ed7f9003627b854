"""Scripts, catalogue queries and readers of recordings, on DynamoDB Local."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from tests.support.dynamodb_local import running_dynamodb_local

from postern.domain.sessions.results import Finished, Problem, ResultColumns, Row
from postern.domain.targets.target_task import TargetTaskKind
from postern.protocols.dynamodb.queries.dynamodb_catalogue import CATALOGUE
from postern.protocols.dynamodb.queries.dynamodb_script import DynamodbScript
from postern.protocols.dynamodb.recorded.dynamodb_answers import (
    DynamodbAnswers,
    DynamodbResults,
    DynamodbTextRenderer,
)
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.http.http_frames import (
    REQUEST,
    REQUEST_DATA,
    RESPONSE_DATA,
    RESPONSE_END,
    HttpFrameReader,
    data_frames,
    end_frame,
    read_request,
    response_frame,
)
from postern.protocols.http.http_heads import ResponseHead

pytestmark = pytest.mark.slow  # DynamoDB Local comes with `make drivers`

KEYS = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=local/20260101/eu-central-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0"
)


class Target:
    """An agent that sends one request after another."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._frames = HttpFrameReader()
        self._head: Any = None
        self._body = b""

    def answer(self, data: bytes) -> bytes:
        """The frames of responses."""
        answers = b""
        for frame in self._frames.feed(data):
            if frame.kind == REQUEST:
                self._head, self._body = read_request(frame.payload), b""
            elif frame.kind == REQUEST_DATA:
                self._body += frame.payload
            else:
                answers += self._send(frame.exchange)
        return answers

    def _send(self, exchange: int) -> bytes:
        connection = http.client.HTTPConnection(self._url.hostname or "", self._url.port, timeout=20)
        headers = {name.decode(): value.decode() for name, value in self._head.headers}
        connection.request("POST", "/", self._body, {**headers, "Authorization": AUTHORIZATION})
        response = connection.getresponse()
        sent = tuple((name.lower().encode(), value.encode()) for name, value in response.getheaders())
        content = response.read()
        connection.close()
        head = response_frame(exchange, ResponseHead(response.status, sent, len(content)))
        return head + data_frames(RESPONSE_DATA, exchange, content) + end_frame(RESPONSE_END, exchange)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_dynamodb_local() as endpoint:
        client = boto3.client("dynamodb", endpoint_url=endpoint, region_name="eu-central-1", **KEYS)
        client.create_table(
            TableName="people",
            AttributeDefinitions=[
                {"AttributeName": "id", "AttributeType": "S"},
                {"AttributeName": "city", "AttributeType": "S"},
            ],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": "by-city",
                    "KeySchema": [{"AttributeName": "city", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        yield endpoint


def run(server: str, text: str, *, chunk: int = 0) -> tuple[DynamodbScript, bytes]:
    """Run a script; return it and what is recorded."""
    script, target = DynamodbScript(text), Target(server)
    recorded = b""
    sent = script.start()
    while sent:
        answer = target.answer(sent)
        recorded += answer
        size = chunk or len(answer)
        sent = b"".join(script.feed(answer[at : at + size]) for at in range(0, len(answer), size))
    return script, recorded


INSERTS = "\n".join(
    f"""put-item --table-name people --item '{{"id": {{"S": "{number}"}}, "age": {{"N": "{20 + number}"}},
    "tags": {{"SS": ["a", "b"]}}, "home": {{"M": {{"zip": {{"S": "10115"}}}}}}}}'"""
    for number in range(3)
)


@pytest.mark.parametrize("chunk", [0, 1, 100])
def test_script_runs_to_its_end(server: str, chunk: int) -> None:
    script, recorded = run(server, f"{INSERTS}\nSELECT age FROM people WHERE id = '1';\nlist-tables", chunk=chunk)
    assert (script.finished, script.exit_code()) == (True, 0)
    renderer = DynamodbTextRenderer()
    pieces = renderer.feed(recorded)
    text = b"".join(piece for _, piece in pieces).decode()
    assert text == 'ok\nok\nok\n{"age": 21}\n1 item\n{"TableNames": ["people"]}\n'
    assert renderer.rest() == []


def test_results_have_a_column_for_each_attribute(server: str) -> None:
    run(server, INSERTS)
    _, recorded = run(server, "scan --table-name people --select ALL_ATTRIBUTES")
    reader = DynamodbResults()
    half = len(recorded) // 2
    columns, *rows, finished = reader.feed(recorded[:half]) + reader.feed(recorded[half:])
    assert isinstance(columns, ResultColumns)
    by_name = dict(zip(columns.names, columns.types, strict=True))
    assert by_name == {"id": "string", "age": "number", "tags": "string set", "home": "map"}
    cells = [dict(zip(columns.names, row.cells, strict=True)) for row in rows if isinstance(row, Row)]
    assert {"id": "2", "age": "22", "tags": '["a", "b"]', "home": '{"zip": "10115"}'} in cells
    assert finished == Finished("3 items")
    assert reader.find_columns(("home.zip",)) == (columns.names.index("home"),)
    assert reader.find_columns(("home.zip",), whole=True) == ()
    answers = DynamodbAnswers().feed(recorded)
    assert sum(answer.rows for answer in answers) == 3
    assert answers[-1].ends


def test_error_ends_the_script(server: str) -> None:
    script, recorded = run(server, "scan --table-name nothing\nlist-tables")
    assert (script.finished, script.exit_code()) == (True, 1)
    (problem,) = DynamodbResults().feed(recorded)
    assert isinstance(problem, Problem)
    assert (problem.code, problem.fails) == ("ResourceNotFoundException", True)
    ((kind, text),) = DynamodbTextRenderer().feed(recorded)
    assert (kind, text.startswith(b"ERROR ResourceNotFoundException: ")) == ("e", True)


def test_pages_are_one_result(server: str) -> None:
    big = "x" * 390_000
    for number in range(4):
        run(
            server,
            f'PutItem {{"TableName": "people", "Item": {{"id": {{"S": "big{number}"}}, "b": {{"S": "{big}"}}}}}}',
        )
    _, recorded = run(server, "scan --table-name people --filter-expression 'begins_with(id, :b)' "
                              "--expression-attribute-values '{\":b\": {\"S\": \"big\"}}'")  # fmt: skip
    results = DynamodbResults().feed(recorded)
    assert sum(isinstance(result, ResultColumns) for result in results) == 1
    assert sum(isinstance(result, Row) for result in results) == 4
    assert results[-1] == Finished("4 items")


def ask(server: str, kind: TargetTaskKind, values: Sequence[str | None] = ()) -> dict[str, Any]:
    question = CATALOGUE.target_tasks[kind]
    query = CATALOGUE.query(question.statement, values)
    target = Target(server)
    rows = []
    sent = query.start()
    while sent:
        answer = target.answer(sent)
        while answer:  # as a stream is read: exactly what it needs
            size = query.needs
            rows += query.feed(answer[:size])
            answer = answer[size:]
        sent = query.request()  # type: ignore[attr-defined]
    assert query.finished
    if query.error is not None:
        raise query.error
    return question.shape(rows)


def test_catalogue_has_tables_indexes_and_attributes(server: str) -> None:
    run(server, INSERTS)
    assert ask(server, TargetTaskKind.TEST) == {"success": True}
    assert ask(server, TargetTaskKind.DATABASES) == {"databases": []}
    assert ask(server, TargetTaskKind.TABLES) == {"schemas": [{"name": "people", "tables": ["people"]}]}
    columns = ask(server, TargetTaskKind.COLUMNS, ("people",))["columns"]
    assert columns[0] == {"name": "id", "type": "S", "nullable": False}
    assert {"name": "tags", "type": "SS", "nullable": True} in columns
    schema = ask(server, TargetTaskKind.SCHEMA)
    (people,) = schema["schemas"]
    assert [(table["name"], table["kind"]) for table in people["tables"]] == [("people", "table"), ("by-city", "index")]
    assert [column["name"] for column in people["tables"][0]["columns"]] == ["id", "city"]


def test_missing_table_is_an_error(server: str) -> None:
    with pytest.raises(TargetRefused) as caught:
        ask(server, TargetTaskKind.COLUMNS, ("nothing",))
    assert caught.value.code == "ResourceNotFoundException"
