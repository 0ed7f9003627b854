"""Answers as server-sent events: their form, the check that the caller is still allowed, and clients that do not
read."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, cast

from fastapi import Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.requests import ClientDisconnect
from starlette.types import Message, Send

from postern.api.authentication_of_requests import address_of, services_of
from postern.domain.identity.principal import Principal
from postern.domain.secret import Secret

log = logging.getLogger(__name__)

RETRY = "retry: 2000\n\n"  # milliseconds after which a client reconnects
EVENT_STREAM = "text/event-stream"
STREAM = {"description": "Server-sent events", "content": {EVENT_STREAM: {}}}
_SEND_WITHIN = 30.0  # seconds in which a client must read what it is sent


class LiveResponse(StreamingResponse):
    """A stream that continues while there is more to come. Disconnects a client that reads nothing. The media type is
    given with each answer: errors have another one."""

    async def stream_response(self, send: Send) -> None:
        async def within(message: Message) -> None:
            await asyncio.wait_for(send(message), _SEND_WITHIN)

        async with aclosing(cast("AsyncGenerator[str, None]", self.body_iterator)):
            try:
                await super().stream_response(within)
            except TimeoutError:
                log.info("a client read nothing of a stream for %s s and was disconnected", _SEND_WITHIN)
                raise ClientDisconnect from None


def describe_stream(*data: type[BaseModel]) -> dict[str, Any]:
    """Return the description of a stream whose events have one of these as their data, as components of the OpenAPI
    document."""
    definitions = {model.__name__: model.model_json_schema(mode="serialization") for model in data}
    content = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in definitions]}
    text = {"type": "string", "contentMediaType": "application/json", "contentSchema": content}
    fields = {"event": {"type": "string"}, "id": {"type": "string"}, "data": text}
    schema = {"$defs": definitions, "type": "object", "properties": fields}
    return {"description": "Server-sent events", "content": {EVENT_STREAM: {"schema": schema}}}


def format_event(name: str, data: Mapping[str, Any], key: str = "") -> str:
    """Return an event; `key` is the id with which a client continues after it."""
    identified = f"id: {key}\n" if key else ""
    return f"{identified}event: {name}\ndata: {json.dumps(data)}\n\n"


async def authenticate_again(request: Request) -> Principal:
    """Return the caller of a running stream as they are now. Raises Unauthenticated, Denied, Unavailable."""
    token: Secret = request.state.token
    caller = await services_of(request).authentication.caller(token, address=address_of(request))
    return caller.principal
