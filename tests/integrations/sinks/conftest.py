from __future__ import annotations

import json
from collections.abc import Callable
from uuid import uuid4

import pytest
from tests.support.receivers import issued
from tests.support.world import START

from postern.domain.event import EventKind
from postern.domain.secret import Secret
from postern.domain.sink import Delivery, DeliveryState, SigningSecret, Sink, SinkKind

SECRET = Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
HOSTILE = "a\r\nb\x1b[31m\u2028 <103>1 - - - - - - forged \ud7ff"


def sink(kind: SinkKind, address: str, **more: object) -> Sink:
    given: dict[str, object] = {"authority": issued().authority, "secrets": (SigningSecret(SECRET),), **more}
    return Sink(uuid4(), uuid4(), "siem", kind, address, (EventKind.AUDIT_ENTRY,), **given)  # type: ignore[arg-type]


@pytest.fixture
def delivery() -> Callable[..., Delivery]:
    def make(event: EventKind = EventKind.AUDIT_ENTRY, **data: object) -> Delivery:
        body = json.dumps({"type": event, "data": {"user": HOSTILE, **data}})
        return Delivery(
            uuid4(),
            uuid4(),
            uuid4(),
            event,
            START,
            body,
            1,
            DeliveryState.WAITING,
            attempts=0,
            error="",
            attempted_at=None,
        )

    return make
