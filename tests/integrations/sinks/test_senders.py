"""Counters and spans of deliveries to sinks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.integrations.sinks.conftest import sink
from tests.support.receivers import LOOPBACK, http_receiver
from tests.support.spans import Noted
from tests.support.world import START

from postern.domain.sink import Delivery, SinkKind
from postern.domain.tracing import Span
from postern.errors import Unavailable
from postern.integrations.sinks.senders import Senders
from postern.metrics.meters import Meters


class Tracer:
    def __init__(self) -> None:
        self.spans: list[tuple[str, Mapping[str, Any], Noted]] = []

    def start(self, name: str, kind: object = None, attributes: Any = None, **_: object) -> Span:
        span = Noted()
        self.spans.append((name, attributes, span))
        return span


async def test_each_delivery_attempt_is_counted_and_traced_without_its_address(
    delivery: Callable[..., Delivery],
) -> None:
    meters, tracer = Meters(), Tracer()
    async with http_receiver(statuses=[500]) as receiver:
        sender = Senders("gateway.example.com", LOOPBACK, tracer=tracer, count=meters.count)
        siem = sink(SinkKind.WEBHOOK, receiver.url)
        with pytest.raises(Unavailable):
            await sender.send(siem, [delivery()], START)
        await sender.send(siem, [delivery(), delivery()], START)
        await sender.close()
    counted = {tuple(labels): number for labels, number in meters.snapshot()["postern_sink_deliveries"]}
    assert counted == {("webhook", "failed"): 1, ("webhook", "delivered"): 2}
    assert [name for name, _, _ in tracer.spans] == ["sink.deliver"] * 2
    assert [span.said for _, _, span in tracer.spans] == [["failed: Unavailable", "ended"], ["ended"]]
    assert tracer.spans[1][1] == {"postern.sink.id": str(siem.id), "postern.sink.kind": "webhook", "postern.events": 2}
