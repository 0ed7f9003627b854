"""The gateway's side of CloudWatch: what its clients sign for, and started queries that all workers know.

A query is started by one request, and its results are fetched by another, which can come to another worker: each call
of the AWS CLI has connections of its own. So workers tell each other which queries they have started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from postern.errors import PosternError
from postern.protocols.aws.aws_json import read_error
from postern.protocols.aws.listener.aws_credential_scheme import AwsCredentialScheme
from postern.protocols.cloudwatch.cloudwatch_endpoints import LOGS_TARGET, name_operation
from postern.protocols.cloudwatch.wire.cloudwatch_errors import encode_error, error_named
from postern.protocols.cloudwatch.wire.started_queries import QueryRegistry, StartedQueries
from postern.protocols.http.http_heads import RequestHead, ResponseHead
from postern.store.ports.common_ports import Signals, Topic

SIGNED_FOR: Final = ("logs", "monitoring")
MAX_TOLD: Final = 8 * 1024  # characters of a request; a longer one is known to its own worker only


class CloudwatchCredentialScheme(AwsCredentialScheme):
    """Signed requests for both services. Errors of logins are in the codec of the request."""

    def __init__(self) -> None:
        super().__init__(SIGNED_FOR)

    def answer(self, head: RequestHead, error: PosternError) -> tuple[ResponseHead, bytes] | None:
        made = super().answer(head, error)
        named = name_operation(head)
        if made is None or named is None or named.target == LOGS_TARGET:
            return made
        response, body = made
        code, message = read_error(body, response.headers)
        return encode_error(named.form, error_named(response.status, code, message), is_logs=False)


class SharedQueryRegistry:
    """Started queries by principal and connection. `signals` carries them between workers."""

    def __init__(self, signals: Signals) -> None:
        self._registry = QueryRegistry()
        self._signals = signals
        self._tasks: set[asyncio.Task[None]] = set()
        signals.subscribe(Topic.QUERY_STARTED, self._note)

    def of(self, principal: str, connection: str) -> StartedQueries:
        """Return the queries of one principal on one connection."""
        queries = self._registry.of(principal, connection)
        queries.on_add = lambda query_id, text: self._publish(principal, connection, query_id, text)
        return queries

    def _note(self, payload: Mapping[str, str]) -> None:
        queries = self._registry.of(payload["principal"], payload["connection"])
        queries.remember(payload["query_id"], payload["text"])

    def _publish(self, principal: str, connection: str, query_id: str, text: str) -> None:
        if len(text) > MAX_TOLD:
            return
        work = self._signals.publish(
            Topic.QUERY_STARTED, principal=principal, connection=connection, query_id=query_id, text=text
        )
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
