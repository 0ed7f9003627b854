"""What an order carries of the trace of who waits for it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from tests.support.spans import TRACEPARENT

from postern.domain.connection import ConnectionType
from postern.domain.secret import Secret
from postern.domain.session import Verb
from postern.errors import ProtocolViolation
from postern.relay.orders import DIAL, Order
from postern.relay.target import Channel, ChannelKind, Start


@pytest.fixture
def order() -> Order:
    return Order(
        session_id=uuid4(),
        user_id="ann",
        user_email="ann@example.com",
        verb=Verb.CONNECT,
        connection_id=uuid4(),
        connection="shop",
        type=ConnectionType.DATABASE,
        subtype="postgres",
        command=(),
        secret={"envvar:PASS": Secret("eA==")},
        start=Start(),
        timeout=5.0,
    )


def test_an_order_carries_the_trace(order: Order) -> None:
    traced = replace(order, trace=TRACEPARENT)
    assert Order.read(traced.message(DIAL)) == traced
    assert Order.read(order.message(DIAL)).trace == ""


def test_an_older_gateways_order_is_read(order: Order) -> None:
    message = order.message(DIAL)
    del message["traceparent"]
    del message["start"]["channel"], message["start"]["host_keys"]
    assert Order.read(message) == order


@pytest.mark.parametrize("host_keys", [None, (), ("ssh-ed25519 AAAA", "ssh-rsa BBBB")])
@pytest.mark.parametrize("kind", ChannelKind)
def test_an_order_carries_the_channel_and_the_host_keys(
    order: Order, kind: ChannelKind, host_keys: tuple[str, ...] | None
) -> None:
    start = Start(channel=Channel(kind, "cat '\udcff'", str(uuid4())), host_keys=host_keys)
    given = replace(order, start=start)
    assert Order.read(json.loads(json.dumps(given.message(DIAL)))) == given


def test_a_channel_that_is_none_is_no_order(order: Order) -> None:
    message = order.message(DIAL)
    message["start"] |= {"channel": {"kind": "x11", "what": "", "login": ""}}
    with pytest.raises(ProtocolViolation):
        Order.read(message)


@pytest.mark.parametrize("given", ["x", 7, None, [], TRACEPARENT + "\n", "0" * 100_000])
def test_what_is_no_trace_is_none(order: Order, given: Any) -> None:
    assert Order.read({**order.message(DIAL), "traceparent": given}).trace == ""
