"""Chats: linked accounts, and requests that Slack sends for buttons."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.paging import ListAnswer, Paging, make_list_answer
from postern.api.responses import errors, open_errors
from postern.api.schemas.server.chat_schemas import ChatCodeAnswer, ChatLinkAnswer
from postern.errors import Malformed, Unauthenticated
from postern.services.chat.chat_links import CODE_LIFE

router = APIRouter(prefix="/chat", tags=["Reviews"], route_class=AuditedRoute)

_MAX_BODY = 256 * 1024  # bytes; Slack's are far smaller
_SENT = {
    "requestBody": {
        "required": True,
        "content": {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}},
    }
}
_ANSWERED: dict[int | str, dict[str, Any]] = {200: {"description": "The answer that Slack expects: nothing, or JSON"}}


@router.post("/link", status_code=201, responses=errors(403))
async def make_chat_code(caller: Caller, services: Use) -> ChatCodeAnswer:
    """Create a code that links a chat account to the caller; an older code stops working."""
    code = await services.chat_links.code(caller)
    return ChatCodeAnswer(code=code.reveal(), expires_in=int(CODE_LIFE.total_seconds()))


@router.get("/accounts", responses=errors())
async def list_chat_accounts(caller: Caller, services: Use, page: Paging) -> ListAnswer[ChatLinkAnswer]:
    """List the caller's linked accounts; those of all users for administrators and auditors. Newest first."""
    listed = await services.chat_links.find(caller, page)
    return make_list_answer([ChatLinkAnswer.of(link) for link in listed.items], listed, page)


@router.delete("/accounts/{id}", status_code=204, responses=errors(404))
async def delete_chat_account(id: UUID, caller: Caller, services: Use) -> None:  # noqa: A002 - the API's name
    """Unlink an account of the caller; administrators can unlink any."""
    await services.chat_links.remove(caller, id)


@router.post(
    "/slack/{id}",
    response_class=Response,
    responses=open_errors(400, 401, 413) | _ANSWERED,
    openapi_extra=_SENT,
)
async def slack_interaction(id: str, request: Request, services: Use) -> Response:  # noqa: A002 - the API's name
    """Receive requests of Slack, which it signs: buttons, forms and the slash command of the sink with this id."""
    body = await request.body()
    if len(body) > _MAX_BODY:
        raise Malformed("the body is larger than a request of Slack can be")
    try:
        sink_id = UUID(id)
    except ValueError:
        raise Unauthenticated("the signature is missing or wrong; check the sink's signing secret") from None
    headers = request.headers
    done = await services.chat_decisions.handle(
        sink_id, headers.get("X-Slack-Request-Timestamp", ""), headers.get("X-Slack-Signature", ""), body
    )
    if done.actor is not None:
        request.state.principal = done.actor
    return JSONResponse(done.answer) if done.answer else Response(status_code=200)
