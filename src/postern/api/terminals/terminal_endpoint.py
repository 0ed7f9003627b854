"""One terminal in a browser, from the handshake of its WebSocket to its close frame.

    handshake: our own origin, our subprotocol ─▶ otherwise an HTTP error, which no page of another site can read
      ─▶ the session's cookie ─▶ a free slot ─▶ first message within FIRST_MESSAGE seconds: the CSRF token
      ─▶ admission, to tell the page early what is missing ─▶ a stream to a relay worker, by the user's own token
      ─▶ relay

The worker admits, reviews, records and inspects as for every other client. This process decides nothing that the worker
does not decide again.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial

from fastapi import WebSocket, WebSocketDisconnect
from pydantic import ValidationError

from postern.api import error_answers
from postern.api.authentication_of_requests import address_of, caller_by_cookie
from postern.api.browser.cookies import is_csrf_token, require_own_socket
from postern.api.depends import services_of
from postern.api.info import info_of
from postern.api.schemas.sessions.terminal_schemas import TerminalOpened, TerminalRequest
from postern.api.terminals.terminal_closing import INTERNAL, TOO_LATE, TerminalClosing, close
from postern.api.terminals.terminal_limiter import TerminalLimiter
from postern.api.terminals.terminal_relay import TerminalRelay
from postern.domain.identity.login import BrowserTerminal
from postern.domain.secret import Secret
from postern.errors import Denied, Invalid, Malformed, PosternError, Unavailable, status_of
from postern.protocols.terminal.terminal_frames import BROWSER_WINDOW
from postern.services.identity.logins.authentication import Caller
from postern.transport.tunnel_dialling import TunnelAddress, open_stream

log = logging.getLogger(__name__)

SUBPROTOCOL = "postern.terminal.v1"
FIRST_MESSAGE = 5.0  # seconds


@dataclass(frozen=True, slots=True)
class Terminals:
    """What terminals need. Without `tunnel`, which leads to the relay workers, none can be opened."""

    tunnel: TunnelAddress | None
    limiter: TerminalLimiter


async def open_terminal(socket: WebSocket) -> None:
    """Serve one terminal until it ends."""
    try:
        await _require_own_page(socket)
    except PosternError as error:
        await socket.send_denial_response(error_answers.answer(status_of(error), error.message))
        return
    closing: TerminalClosing | None
    try:
        try:
            caller = await caller_by_cookie(socket)
        finally:
            await socket.accept(SUBPROTOCOL)  # so that the page is told why it ends, whatever the reason is
        closing = await _serve(socket, caller)
    except WebSocketDisconnect:
        return
    except PosternError as error:
        closing = TerminalClosing.of(error)
    except Exception:
        log.exception("terminal %s failed", socket.state.request_id)
        closing = TerminalClosing(
            INTERNAL,
            f"internal error; ask an administrator to look for {socket.state.request_id} in the gateway's log",
        )
    if closing is not None:
        socket.state.close_code = closing.code
        await close(socket, closing)


async def _require_own_page(socket: WebSocket) -> None:
    """Raises Denied, Malformed, Unavailable."""
    require_own_socket(socket, await info_of(socket))
    if socket.scope["subprotocols"] != [SUBPROTOCOL]:
        raise Malformed(f"Sec-WebSocket-Protocol: must be {SUBPROTOCOL}")


async def _serve(socket: WebSocket, caller: Caller) -> TerminalClosing | None:
    """Return why the terminal ended; None if the browser left. Raises PosternError."""
    terminals: Terminals = socket.app.state.terminals
    services, connection, address = services_of(socket), socket.path_params["nameOrID"], address_of(socket)
    token: Secret = socket.state.session_token
    if terminals.tunnel is None or caller.login is None:
        raise Unavailable("this server has no relay workers; ask an administrator to run `postern up`")
    with terminals.limiter.slot(caller.principal.id):
        try:
            request = await asyncio.wait_for(_first_message(socket, token), FIRST_MESSAGE)
        except TimeoutError:
            return TerminalClosing(
                TOO_LATE, f"the first message did not come within {FIRST_MESSAGE:g} seconds; try again"
            )
        browser = BrowserTerminal(caller.login, services.now())
        found_connection = await services.access.require_terminal(caller.principal, connection, browser)
        attestation = await services.terminal_attestations.issue(token, address)
        stream_request = {
            "connect": str(found_connection.id),
            "protocol": found_connection.protocol,
            "token": token.reveal(),
            "browser": {"address": address, "attestation": attestation.reveal()},
            **request.fields(),
        }
        standing = partial(services.authentication.standing, caller, address=address)
        relay = TerminalRelay(socket, standing)
        async with open_stream(terminals.tunnel, token, stream_request, relay):
            await socket.send_text(TerminalOpened(window=BROWSER_WINDOW).model_dump_json())
            return await relay.run()


async def _first_message(socket: WebSocket, token: Secret) -> TerminalRequest:
    """Return the first message. Raises Malformed, Invalid, Denied, WebSocketDisconnect."""
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1005))
    text = message.get("text")
    if text is None:
        raise Malformed("the first message must be text: a JSON object with the CSRF token")
    try:
        request = TerminalRequest.model_validate_json(text)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise Invalid(f"first message: {where + ': ' if where else ''}{problem['msg']}") from None
    if not is_csrf_token(request.csrf_token, token):
        raise Denied(
            "the CSRF token is not that of this login; its value is the `csrf_token` of GET /api/login/session, which "
            "changes with each login and refresh"
        )
    return request
