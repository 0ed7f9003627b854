"""CloudWatch on HTTP: requests as statements, answers as rows.

request ─▶ operation and parameters ─▶ `FilterLogEvents {"logGroupName": …}` ─▶ judged
answer  ─▶ its reader (`cloudwatch_answers`) ─▶ rows and errors ─▶ judged, masked, encoded again
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from postern.interception.events import Operation
from postern.interception.verdicts import Refuse
from postern.protocols.cloudwatch.cloudwatch_endpoints import LOGS_TARGET, RequestForm, name_operation
from postern.protocols.cloudwatch.dialect.cloudwatch_statement_text import UnreadableCloudwatchRequest, write_statement
from postern.protocols.cloudwatch.wire.cloudwatch_answers import ExpectedAnswer, make_reader
from postern.protocols.cloudwatch.wire.cloudwatch_errors import (
    CloudwatchError,
    encode_error,
    failure_error,
    refusal_error,
)
from postern.protocols.cloudwatch.wire.cloudwatch_requests import read_cloudwatch_request
from postern.protocols.cloudwatch.wire.started_queries import StartedQueries
from postern.protocols.http.http_frames import TargetFailure
from postern.protocols.http.http_heads import RequestHead, ResponseHead, without
from postern.protocols.http.wire.http_dialect import BodyNeed, HttpDialect, ReadRequest, ResponseBodyReader
from postern.protocols.wire_base import Wants

MAX_REQUEST: Final = 2 << 20  # bytes: AWS takes 1 MiB
UNREADABLE: Final = "cloudwatch"
_START: Final = "StartQuery"
_MAX_SHOWN: Final = 512  # characters of a path in the text of a request that cannot be read


class CloudwatchDialect(HttpDialect):
    """The dialect of one link. `queries` are those that the principal has started on this connection."""

    def __init__(self, queries: StartedQueries, *, max_body: int = MAX_REQUEST) -> None:
        self._queries = queries
        self._max_body = max_body

    def body_need(self, head: RequestHead, wants: Wants) -> BodyNeed:
        return BodyNeed(self._max_body, must_fit=True)

    def read_request(self, exchange: int, head: RequestHead, body: bytes, *, is_complete: bool) -> ReadRequest:
        try:
            if not is_complete:
                raise UnreadableCloudwatchRequest(f"the body of the request has more than {self._max_body} bytes")
            request = read_cloudwatch_request(head, body, max_body=self._max_body)
            started_by = self._queries.find(request.parameters.get("queryId"))
            text = write_statement(request.operation, request.parameters, started_by)
            text.encode()
        except (UnreadableCloudwatchRequest, UnicodeEncodeError, RecursionError) as error:
            return self._unreadable(exchange, head, str(error))
        started = partial(self._queries.add, text=text) if request.operation == _START else None
        answer = ExpectedAnswer(exchange, request.form, request.operation, started)
        return ReadRequest(exchange, _readable(head), [Operation(exchange, text)], answers=answer)

    def _unreadable(self, exchange: int, head: RequestHead, why: str) -> ReadRequest:
        forced = Refuse(
            UNREADABLE,
            f"this is not a request of CloudWatch that the gateway can judge: {why}",
            "Use an SDK or the AWS CLI, with the address of the gateway as the endpoint of logs or cloudwatch.",
        )
        operation = Operation(exchange, f"{head.method} {head.path[:_MAX_SHOWN]}")
        return ReadRequest(exchange, head, [operation], forced)

    def read_response(self, request: ReadRequest, response: ResponseHead, wants: Wants) -> ResponseBodyReader | None:
        answer = request.answers
        assert isinstance(answer, ExpectedAnswer)
        return make_reader(answer, response, wants)

    def refusal(self, request: ReadRequest, refusal: Refuse) -> tuple[ResponseHead, bytes]:
        return _answer_with(request, refusal_error(refusal))

    def failure(self, request: ReadRequest, failure: TargetFailure) -> tuple[ResponseHead, bytes]:
        return _answer_with(request, failure_error(failure))


def _answer_with(request: ReadRequest, error: CloudwatchError) -> tuple[ResponseHead, bytes]:
    named = name_operation(request.head)
    form = RequestForm.JSON if named is None else named.form
    return encode_error(form, error, is_logs=named is None or named.target == LOGS_TARGET)


def _readable(head: RequestHead) -> RequestHead:
    """Return the request as it is forwarded: its answer must not be compressed, so that it can be read."""
    headers = (*without(head.headers, (b"accept-encoding",)), (b"accept-encoding", b"identity"))
    return replace(head, headers=headers, upgrade="")
