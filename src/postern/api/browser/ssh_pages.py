"""The page for an SSH login that waits: plain HTML, no scripts, every value escaped."""

from __future__ import annotations

from fastapi.responses import HTMLResponse
from markupsafe import Markup

from postern.api.browser import pages
from postern.services.identity.logins.ssh_logins import SshLoginRequest

_ENTER = Markup(
    '{problem}<form method="get"><p><label>Code in the address: <input name="user_code" '
    'autocomplete="off" autofocus required maxlength="16"></label> <button>Continue</button></p></form>'
)
_CONFIRM = Markup(
    "<p>An SSH client requests to log in as <strong>{email}</strong>.</p>"
    "<dl><dt>Connection</dt><dd><strong>{connection}</strong></dd><dt>As</dt><dd>{user}</dd>"
    "<dt>From address</dt><dd><strong>{source}</strong>{elsewhere}</dd>"
    "<dt>Program</dt><dd>{client}</dd><dt>Since</dt><dd>{since} UTC</dd></dl>"
    "<p>Continue only if you started this yourself, in the terminal in front of you. If "
    "someone else sent you here, or asks you for the number, reject it: they could act as you.</p><form "
    'method="post" action="/api/login/ssh/confirm"><input type="hidden" name="user_code" '
    'value="{code}"><input type="hidden" name="csrf_token" value="{csrf}"><p><label>Number in the '
    'terminal: <input name="number" autocomplete="off" inputmode="numeric" maxlength="8" '
    'autofocus></label></p><p><button name="answer" value="allow">Approve</button> <button name="answer" '
    'value="deny">Reject</button></p></form>'
)
_ELSEWHERE = Markup(" (your browser connects from <strong>{}</strong>)")


def enter_code(problem: str = "") -> HTMLResponse:
    markup = Markup('<p role="alert">{}</p>').format(problem) if problem else Markup("")
    return pages.page("Approve an SSH client", _ENTER.format(problem=markup))


def confirm(asking: SshLoginRequest, email: str, address: str, csrf_token: str) -> HTMLResponse:
    """Return the page. `address` is the browser's."""
    content = _CONFIRM.format(
        email=email,
        connection=asking.wanted.connection or "any: the client names it later, for example through a jump host",
        user=asking.wanted.user,
        source=asking.address,
        elsewhere=Markup("") if address == asking.address else _ELSEWHERE.format(address),
        client=asking.wanted.client or "unknown",
        since=asking.since.strftime("%Y-%m-%d %H:%M:%S"),
        code=asking.code,
        csrf=csrf_token,
    )
    return pages.page("Approve an SSH client?", content)
