"""What a browser shows of an SSH login that waits: plain HTML, no scripts, every value escaped."""

from __future__ import annotations

from fastapi.responses import HTMLResponse
from markupsafe import Markup

from postern.api.browser import pages
from postern.services.identity.logins.ssh_logins import SshLoginRequest

_ENTER = Markup(
    '{problem}<form method="get"><p><label>Code that is in the address: '
    '<input name="user_code" autocomplete="off" autofocus required maxlength="16"></label> '
    "<button>Continue</button></p></form>"
)
_CONFIRM = Markup(
    "<p>An SSH client asks to be logged in as <strong>{email}</strong>.</p>"
    "<dl><dt>Connection</dt><dd><strong>{connection}</strong></dd><dt>As</dt><dd>{user}</dd>"
    "<dt>From address</dt><dd><strong>{source}</strong>{elsewhere}</dd><dt>Program</dt><dd>{client}</dd>"
    "<dt>Since</dt><dd>{since} UTC</dd></dl>"
    "<p>Go on only if you began this yourself, in the terminal in front of you. Nobody else ever needs the number: "
    "whoever asks you for it, or sent you here, would act as you.</p>"
    '<form method="post" action="/api/login/ssh/confirm">'
    '<input type="hidden" name="user_code" value="{code}"><input type="hidden" name="csrf_token" value="{csrf}">'
    '<p><label>Number that the terminal shows: <input name="number" autocomplete="off" inputmode="numeric" '
    'maxlength="8" autofocus></label></p><p><button name="answer" value="allow">Let it in</button> '
    '<button name="answer" value="deny">Refuse</button></p></form>'
)
_ELSEWHERE = Markup(" (your browser comes from <strong>{}</strong>)")


def enter_code(problem: str = "") -> HTMLResponse:
    said = Markup('<p role="alert">{}</p>').format(problem) if problem else Markup("")
    return pages.page("Let an SSH client in", _ENTER.format(problem=said))


def confirm(asking: SshLoginRequest, email: str, address: str, csrf_token: str) -> HTMLResponse:
    """`address` is the browser's."""
    content = _CONFIRM.format(
        email=email,
        connection=asking.wanted.connection or "any: it names one later, as through a jump host",
        user=asking.wanted.user,
        source=asking.address,
        elsewhere=Markup("") if address == asking.address else _ELSEWHERE.format(address),
        client=asking.wanted.client or "unknown",
        since=asking.since.strftime("%Y-%m-%d %H:%M:%S"),
        code=asking.code,
        csrf=csrf_token,
    )
    return pages.page("Let an SSH client in?", content)
