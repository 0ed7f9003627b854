"""Sinks: where events go, outside of this server."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.auth import Caller, Use
from postern.api.paging import ListAnswer, LongListAnswer, LongPaging, Paging, listed, long_listed
from postern.api.responses import errors
from postern.api.schemas.sinks import (
    DeliveryAnswer,
    NewSinkAnswer,
    RedeliverAnswer,
    RedeliverRequest,
    SinkAnswer,
    SinkChange,
    SinkRequest,
    SinkSecretAnswer,
    SinkTestAnswer,
)
from postern.domain.sink import DeliveryState

router = APIRouter(prefix="/sinks", tags=["Server Management"], route_class=AuditedRoute)


@router.get("", responses=errors(403))
async def list_sinks(caller: Caller, services: Use, page: Paging) -> ListAnswer[SinkAnswer]:
    """By name; for administrators and auditors."""
    found = await services.sinks.find(caller, page)
    return listed([SinkAnswer.of(sink) for sink in found.items], found, page)


@router.post("", status_code=201, responses=errors(403, 409, 429))
async def create_sink(body: SinkRequest, caller: Caller, services: Use) -> NewSinkAnswer:
    """Events from now on go there. The signing secret of a webhook is shown this once."""
    return NewSinkAnswer.made(*await services.sinks.create(caller, body.fields()))


@router.get("/{nameOrID}", responses=errors(403, 404))
async def get_sink(nameOrID: str, caller: Caller, services: Use) -> SinkAnswer:  # noqa: N803 - the API's name
    return SinkAnswer.of(await services.sinks.get(caller, nameOrID))


@router.patch("/{nameOrID}", responses=errors(403, 404, 409))
async def update_sink(nameOrID: str, body: SinkChange, caller: Caller, services: Use) -> NewSinkAnswer:  # noqa: N803
    """Also tries again at once what waits; `paused: false` brings back one that is gone. Another `address` or
    `authority` needs headers and keys again, and a webhook's address another signing secret, which is shown this
    once."""
    return NewSinkAnswer.made(*await services.sinks.update(caller, nameOrID, body.fields()))


@router.delete("/{nameOrID}", status_code=204, responses=errors(403, 404))
async def delete_sink(nameOrID: str, caller: Caller, services: Use) -> None:  # noqa: N803
    """With all that waits for it."""
    await services.sinks.remove(caller, nameOrID)


@router.post("/{nameOrID}/secret", responses=errors(403, 404))
async def rotate_sink_secret(nameOrID: str, caller: Caller, services: Use) -> SinkSecretAnswer:  # noqa: N803
    """A new signing secret of a webhook."""
    return SinkSecretAnswer(secret=(await services.sinks.rotate(caller, nameOrID)).reveal())


@router.post("/{nameOrID}/test", status_code=202, responses=errors(403, 404, 409))
async def test_sink(nameOrID: str, caller: Caller, services: Use) -> SinkTestAnswer:  # noqa: N803
    """Sends an event that says that it is a test."""
    return SinkTestAnswer(number=await services.sinks.test(caller, nameOrID))


@router.post("/{nameOrID}/redeliver", status_code=202, responses=errors(403, 404))
async def redeliver(nameOrID: str, body: RedeliverRequest, caller: Caller, services: Use) -> RedeliverAnswer:  # noqa: N803
    """Sends again what was given up, or one event whatever became of it; the receiver sees the same ids."""
    return RedeliverAnswer(waiting=await services.sinks.redeliver(caller, nameOrID, body.number))


@router.get("/{nameOrID}/deliveries", responses=errors(403, 404))
async def list_deliveries(
    nameOrID: str,  # noqa: N803
    caller: Caller,
    services: Use,
    page: LongPaging,
    state: DeliveryState | None = None,
) -> LongListAnswer[DeliveryAnswer]:
    """Newest first. Delivered ones stay for a day, those given up for 30."""
    found = await services.sinks.deliveries(caller, nameOrID, state, page)
    return long_listed([DeliveryAnswer.of(one) for one in found.items], found)
