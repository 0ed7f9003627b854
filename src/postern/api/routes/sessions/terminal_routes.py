"""The terminal of a connection in a browser: a WebSocket, and what the same address answers without one."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, WebSocket
from starlette.routing import WebSocketRoute

from postern.api.authentication_of_requests import CallerInFull, Use
from postern.api.crud import Key
from postern.api.responses import errors
from postern.api.route import Route
from postern.api.schemas.common import HTTPError
from postern.api.terminals.terminal_endpoint import SUBPROTOCOL, open_terminal
from postern.domain.identity.login import BrowserTerminal
from postern.errors import Denied

router = APIRouter(prefix="/connections", tags=["Sessions"], route_class=Route)


@router.get(
    "/{nameOrID}/terminal",
    status_code=101,
    response_model=None,
    responses={
        **errors(404),
        101: {"description": "The WebSocket is open"},
        426: {"model": HTTPError, "description": "The terminal could be opened, by a WebSocket"},
    },
)
async def open_web_terminal(key: Key, caller: CallerInFull, services: Use) -> None:
    """Open a terminal for a browser as a WebSocket with the subprotocol `postern.terminal.v1`. It is authenticated by
    the session's cookie alone, and its `Origin` must be the gateway's own page.

    The first message is text: a `TerminalRequest` with the CSRF token, within five seconds. The gateway answers with
    `{"status": "opened", "window": …}`. Then both sides send binary messages of whole frames: one byte kind, four bytes
    length (big-endian), the payload. The browser sends STDIN (2), RESIZE (4: u16 columns, u16 rows), SIGNAL (5) and
    CREDIT (6: u32 bytes of output that it has processed). The gateway sends STDOUT (17), STDERR (18), EXIT (19: u32
    exit code, name of the signal) and WAITS (20: 1 while an approval is pending, then 0). It sends no more than
    `window` bytes of output ahead of the credit.

    The last message is `{"status": "closed", "code": …, "message": …}`; then the socket is closed with that code: 1000
    after EXIT, 4408 if a message came too late, 4428 if the login must first be confirmed with POST
    /login/step-up, otherwise 4000 plus the status of the error. Without a WebSocket this returns 426, or the error that
    opening the terminal would have.
    """
    if caller.login is None:
        raise Denied("terminals in the browser need a login; use `postern connect` instead")
    await services.access.require_terminal(caller.principal, key, BrowserTerminal(caller.login, services.now()))
    raise HTTPException(
        426,
        f"this address is a WebSocket with the subprotocol {SUBPROTOCOL}; open it from the web application, or use "
        "`postern connect`",
        headers={"Upgrade": "websocket"},
    )


async def _serve(socket: WebSocket) -> None:
    await open_terminal(socket)


socket_route = WebSocketRoute("/api/connections/{nameOrID}/terminal", _serve)
