"""`Idempotency-Key`: a write that is sent again gets the first answer, and is not carried out again.

Every authenticated write accepts the header. Keys belong to the caller: two callers with the same key do not interfere.
Answers are stored for 24 h, encrypted; answers that mean "try again" (429, 5xx) are not.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Request, Response, params

from postern.api.authentication_of_requests import EnrollingCaller
from postern.api.depends import services_of
from postern.services.server.idempotency import IdempotencyTicket, StoredAnswer

REPLAYED = "Idempotency-Replayed"
_COOKIES = "set-cookie"  # the one header that can occur several times
_KEPT_HEADERS = ("content-type", "location", "token")

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="A text that is new for each request. If the request is sent again with it within 24 h, it is not "
        "carried out again but gets the same answer, with `Idempotency-Replayed: true`",
    ),
]


class ReplayAnswer(Exception):
    """End a request whose answer is stored."""

    def __init__(self, answer: StoredAnswer) -> None:
        self._answer = answer

    def response(self) -> Response:
        headers = dict(self._answer.headers)
        cookies = headers.pop(_COOKIES, "")
        response = Response(self._answer.body, self._answer.status, {**headers, REPLAYED: "true"})
        for cookie in cookies.splitlines():
            response.headers.append(_COOKIES, cookie)
        return response


async def begin(request: Request, caller: EnrollingCaller, key: Key = None) -> None:
    """Begin the request. Raises Replay, and as `services.server.idempotency`."""
    if key is None:
        return
    target = f"{request.url.path}?{request.url.query}"
    service = services_of(request).idempotency
    answer = await service.begin(caller.principal, key, request.method, target, await request.body())
    if isinstance(answer, StoredAnswer):
        raise ReplayAnswer(answer)
    request.state.idempotency = answer


async def end(request: Request, response: Response | None) -> None:
    """Store the answer; None for an internal failure. Does nothing for a request without a key."""
    ticket: IdempotencyTicket | None = getattr(request.state, "idempotency", None)
    if ticket is None:
        return
    service = services_of(request).idempotency
    body = getattr(response, "body", None)  # a stream has no body
    if response is None or response.status_code >= 500 or response.status_code == 429 or body is None:
        await service.forget(ticket)
        return
    headers = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
    if cookies := response.headers.getlist(_COOKIES):
        headers[_COOKIES] = "\n".join(cookies)
    await service.finish(ticket, response.status_code, headers, bytes(body))


def is_kept(dependencies: list[params.Depends]) -> bool:
    return any(dependency.dependency is begin for dependency in dependencies)


BEGIN = Depends(begin)
