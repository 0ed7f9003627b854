"""Answers of an agent to orders that it cannot carry out."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, cast

import pytest
from tests.agent.test_secrets import order

from postern.agent.serve import OrderRunner, Orders
from postern.relay.orders import CANCEL
from postern.transport.mux import Incoming


class IncomingOrder:
    """A stream that the gateway opened, without a tunnel."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.refusals: list[tuple[str, str]] = []
        self.work: Coroutine[Any, Any, None] | None = None

    def serve(self, work: Coroutine[Any, Any, None]) -> None:
        self.work = work

    def refuse(self, code: str, message: str, _details: object) -> None:
        self.refusals.append((code, message))


@pytest.mark.parametrize(
    "request_fields",
    [
        {},
        {"process": 1},
        {"key": "00"},
        {"process": "x", "key": "00"},
        {"process": None, "key": "00"},
        {"process": [], "key": "00"},
        {"process": float("inf"), "key": "00"},
        {"process": 1, "key": "x"},
        {"process": 1, "key": None},
        {"process": 1, "key": 7},
    ],
    ids=str,
)
async def test_malformed_cancel_order_is_rejected(request_fields: dict[str, Any]) -> None:
    incoming = IncomingOrder({**order({}).message(CANCEL), **request_fields})
    Orders(cast("OrderRunner", None)).take(cast("Incoming", incoming))
    assert incoming.work is not None
    await incoming.work
    assert incoming.refusals == [("ProtocolViolation", "a cancel order does not name its process")]
