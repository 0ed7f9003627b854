"""Requests and answers of CloudWatch as botocore writes and reads them, and what the dialect makes of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID
from xml.sax.saxutils import escape

import botocore.session
import cbor2
from botocore.model import OperationModel, Shape
from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from tests.inspection.conftest import make_session

from postern.domain.rules.masking import InfoType, MaskingRule, Strategy, Strictness
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception.events import Output, Rows
from postern.interception.verdicts import Refuse
from postern.protocols.cloudwatch.dialect.cloudwatch_lineage import CloudwatchSessionLineage
from postern.protocols.cloudwatch.dialect.cloudwatch_statement_facts import CloudwatchStatementFacts
from postern.protocols.cloudwatch.wire.cloudwatch_dialect import CloudwatchDialect
from postern.protocols.cloudwatch.wire.started_queries import StartedQueries
from postern.protocols.http.http_frames import HEADER, RESPONSE_DATA, RESPONSE_END
from postern.protocols.http.http_heads import RequestHead, ResponseHead
from postern.protocols.http.wire.http_dialect import ReadRequest
from postern.protocols.wire_base import Wants

EMAIL = "ann.miller@example.com"
SESSION = botocore.session.get_session()
MODELS = {name: SESSION.get_service_model(name) for name in ("logs", "cloudwatch")}
PROTOCOLS = [("logs", "json"), ("cloudwatch", "json"), ("cloudwatch", "smithy-rpc-v2-cbor"), ("cloudwatch", "query")]
ALL = Wants(operations=True, rows=True, output=True)


def model_of(service: str, operation: str) -> OperationModel:
    return MODELS[service].operation_model(operation)


def serialized(service: str, operation: str, parameters: Mapping[str, Any], protocol: str) -> tuple[RequestHead, bytes]:
    """The request as botocore sends it, without a signature."""
    made = create_serializer(protocol).serialize_to_request(parameters, model_of(service, operation))
    body = made["body"]
    if isinstance(body, dict):
        body = urlencode(body)
    data = body.encode() if isinstance(body, str) else bytes(body)
    headers = tuple((name.lower().encode(), str(value).encode()) for name, value in made["headers"].items())
    return RequestHead(made["method"], made["url_path"], "logs.example", headers, len(data)), data


def read(dialect: CloudwatchDialect, head: RequestHead, body: bytes, exchange: int = 1) -> ReadRequest:
    assert dialect.body_need(head, ALL).must_fit
    return dialect.read_request(exchange, head, body, is_complete=True)


def text_of(service: str, operation: str, parameters: Mapping[str, Any], protocol: str = "json") -> str:
    request = read(CloudwatchDialect(StartedQueries()), *serialized(service, operation, parameters, protocol))
    assert request.forced is None, request.forced
    return request.operations[0].text


# Answers


def sample(shape: Shape | None, text: str = EMAIL, depth: int = 0) -> Any:
    """A value of a shape with this text in every place that is one."""
    if shape is None:
        return {}
    kind = shape.type_name
    if kind == "structure":
        if depth > 12:
            return {}
        members = list(shape.members.items())
        if getattr(shape, "is_tagged_union", False):
            members = members[:1]
        return {name: sample(member, text, depth + 1) for name, member in members}
    if kind == "list":
        return [sample(shape.member, text, depth + 1)] * 2 if depth <= 12 else []
    if kind == "map":
        return {"key": sample(shape.value, text, depth + 1)}
    scalars: dict[str, Any] = {
        "string": text,
        "blob": text.encode(),
        "boolean": True,
        "timestamp": datetime(2026, 11, 30, tzinfo=UTC),
        "double": 1.5,
        "float": 1.5,
    }
    return scalars.get(kind, 17)


def encoded(service: str, operation: str, value: Any, protocol: str) -> bytes:
    """An answer as AWS writes it."""
    if protocol == "query":
        shape = model_of(service, operation).output_shape
        inner = "" if shape is None else f"<{operation}Result>{_xml(shape, value)}</{operation}Result>"
        return (
            f'<{operation}Response xmlns="http://monitoring.amazonaws.com/doc/2010-08-01/">{inner}'
            f"<ResponseMetadata><RequestId>1-2</RequestId></ResponseMetadata></{operation}Response>"
        ).encode()
    if protocol == "json":
        return json.dumps(value, default=_json_default).encode()
    return cbor2.dumps(value, datetime_as_timestamp=True)


def _json_default(value: Any) -> Any:
    return value.timestamp() if isinstance(value, datetime) else base64.b64encode(value).decode()


def _xml(shape: Shape, value: Any) -> str:
    kind = shape.type_name
    if kind == "structure":
        return "".join(f"<{name}>{_xml(shape.members[name], inner)}</{name}>" for name, inner in value.items())
    if kind == "list":
        return "".join(f"<member>{_xml(shape.member, inner)}</member>" for inner in value)
    if kind == "map":
        return "".join(
            f"<entry><key>{escape(key)}</key><value>{_xml(shape.value, inner)}</value></entry>"
            for key, inner in value.items()
        )
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return escape(value.strftime("%Y-%m-%dT%H:%M:%SZ") if isinstance(value, datetime) else str(value))


def parsed(service: str, operation: str, head: ResponseHead, body: bytes, protocol: str) -> dict[str, Any]:
    """An answer as botocore reads it."""
    headers = {name.decode(): value.decode() for name, value in head.headers}
    response = {"body": body, "headers": headers, "status_code": head.status}
    answer: dict[str, Any] = create_parser(protocol).parse(response, model_of(service, operation).output_shape)
    answer.pop("ResponseMetadata", None)
    return answer


class Conversation:
    """One client: its requests, and the target's answers, masked by these rules."""

    def __init__(self, *rules: MaskingRule, types: frozenset[InfoType] = frozenset(), wants: Wants = ALL) -> None:
        self.queries = StartedQueries()
        self.dialect = CloudwatchDialect(self.queries)
        lineage = CloudwatchSessionLineage(lambda: None)
        self.masking = Masking(types, rules, b"key", lineage, facts=CloudwatchStatementFacts())
        self.session = make_session()
        self.wants = wants
        self.events: list[Rows | Output] = []
        self.refusals: list[Refuse] = []
        self._exchange = 0

    def ask(self, service: str, operation: str, parameters: Mapping[str, Any], protocol: str = "json") -> ReadRequest:
        self._exchange += 1
        request = read(self.dialect, *serialized(service, operation, parameters, protocol), self._exchange)
        assert request.forced is None, request.forced
        for event in request.operations:
            self.masking.see(event, self.session)
        return request

    def answer(
        self, request: ReadRequest, body: bytes, head: ResponseHead | None = None, chunk: int = 1 << 20
    ) -> tuple[ResponseHead, bytes]:
        """What the client is sent. Raises ValueError if the body cannot be read; refusals are kept."""
        head = head if head is not None else ResponseHead(200, ((b"content-type", b"x"),), len(body))
        reader = self.dialect.read_response(request, head, self.wants)
        if reader is None:
            return head, body
        pieces = reader.begin()
        for at in range(0, len(body), chunk):
            pieces += reader.feed(body[at : at + chunk])
        pieces += reader.finish(())
        data = b"".join(self._piece(piece) for piece in pieces)
        sent, is_ended = frame_data(data)
        assert is_ended
        final = getattr(reader, "head", None)
        return final if isinstance(final, ResponseHead) else head, sent

    def _piece(self, piece: Any) -> bytes:
        if isinstance(piece, bytes):
            return piece
        assert isinstance(piece, Rows | Output)
        self.events.append(piece)
        verdict = self.masking.see(piece, self.session)
        if isinstance(verdict, Refuse):
            self.refusals.append(verdict)
        encoded_frames: bytes = piece.encode()  # type: ignore[union-attr]
        return encoded_frames

    def exchange(self, service: str, operation: str, parameters: Mapping[str, Any], answer: Any) -> Any:
        """One request by JSON, and the masked answer."""
        request = self.ask(service, operation, parameters)
        return json.loads(self.answer(request, json.dumps(answer).encode())[1])


def frame_data(data: bytes) -> tuple[bytes, bool]:
    """The body in frames of a response, and whether these end it."""
    body = b""
    is_ended = False
    while data:
        kind, size = data[0], int.from_bytes(data[5:HEADER], "big")
        payload, data = data[HEADER : HEADER + size], data[HEADER + size :]
        assert not is_ended
        is_ended = kind == RESPONSE_END
        assert is_ended or kind == RESPONSE_DATA
        body += b"" if is_ended else payload
    return body, is_ended


def column_rule(*columns: str, strategy: Strategy = Strategy.REPLACE, is_strict: bool = True) -> MaskingRule:
    strictness = Strictness.STRICT if is_strict else Strictness.BEST_EFFORT
    return MaskingRule(UUID(int=1), UUID(int=2), "people", columns=columns, strategy=strategy, strictness=strictness)
