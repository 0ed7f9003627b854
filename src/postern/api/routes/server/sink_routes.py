"""Sinks: destinations of events outside of this server."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.crud import ResourceRoutes
from postern.api.paging import LongListAnswer, LongPaging, make_long_list_answer
from postern.api.responses import errors
from postern.api.schemas.server.sink_schemas import (
    DeliveryAnswer,
    NewSinkAnswer,
    RedeliverAnswer,
    RedeliverRequest,
    SinkAnswer,
    SinkRequest,
    SinkSecretAnswer,
    SinkTestAnswer,
)
from postern.domain.sink import DeliveryState

router = APIRouter(prefix="/sinks", tags=["Server Management"], route_class=AuditedRoute)


ResourceRoutes(
    path="",
    names=("sink", "sinks"),
    service=lambda services: services.sinks,
    request=SinkRequest,
    answer=SinkAnswer,
    written=dict.fromkeys(("create", "replace", "update"), NewSinkAnswer),
    texts={
        "create": "It receives events from then on. The signing secret of a webhook is shown only once.",
        "update": "Headers and keys that are left out keep their values. Waiting events are retried at once; "
        "`paused: false` resumes a sink that is gone. A different `address` or `authority` needs headers "
        "and keys again, and a webhook's new address a new signing secret, which is shown only once.",
        "delete": "Its waiting events are deleted.",
    },
).add_to(router)


@router.post("/{nameOrID}/secret", responses=errors(403, 404, 409))
async def rotate_sink_secret(nameOrID: str, caller: Caller, services: Use) -> SinkSecretAnswer:  # noqa: N803
    """Create a new signing secret of a webhook."""
    return SinkSecretAnswer(secret=(await services.sinks.rotate(caller, nameOrID)).reveal())


@router.post("/{nameOrID}/test", status_code=202, responses=errors(403, 404, 409))
async def test_sink(nameOrID: str, caller: Caller, services: Use) -> SinkTestAnswer:  # noqa: N803
    """Send a test event."""
    return SinkTestAnswer(number=await services.sinks.test(caller, nameOrID))


@router.post("/{nameOrID}/redeliver", status_code=202, responses=errors(403, 404))
async def redeliver(nameOrID: str, body: RedeliverRequest, caller: Caller, services: Use) -> RedeliverAnswer:  # noqa: N803
    """Send again the deliveries that were given up, or one in any state, with the same ids."""
    return RedeliverAnswer(waiting=await services.sinks.redeliver(caller, nameOrID, body.number))


@router.get("/{nameOrID}/deliveries", responses=errors(403, 404))
async def list_deliveries(
    nameOrID: str,  # noqa: N803
    caller: Caller,
    services: Use,
    page: LongPaging,
    state: DeliveryState | None = None,
) -> LongListAnswer[DeliveryAnswer]:
    """List deliveries, newest first. Delivered ones are kept for a day, those given up for 30 days."""
    found = await services.sinks.deliveries(caller, nameOrID, state, page)
    return make_long_list_answer([DeliveryAnswer.of(one) for one in found.items], found)
