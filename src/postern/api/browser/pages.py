"""The few pages that the API shows itself: plain HTML, no scripts, no styles, every value escaped."""

from __future__ import annotations

from fastapi.responses import HTMLResponse
from markupsafe import Markup

from postern.services.identity.logins.device_login import DeviceLoginRequest

# In addition to the policy of every answer, which loads nothing and allows no frames.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}
_PAGE = Markup(
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    '<meta name="viewport" content="width=device-width"></head>'
    "<body><main><h1>{title}</h1>{content}</main></body></html>"
)
_ENTER = Markup(
    '{problem}<form method="get"><p><label>Code that the terminal shows: '
    '<input name="user_code" autocomplete="off" autofocus required maxlength="16"></label> '
    "<button>Continue</button></p></form>"
)
_CONFIRM = Markup(
    "<p>A command line requests to log in as "
    "<strong>{email}</strong>.</p><dl><dt>Code</dt><dd><strong>{code}</strong></dd><dt>From "
    "address</dt><dd>{source}</dd><dt>Program</dt><dd>{agent}</dd><dt>Since</dt><dd>{since} "
    "UTC</dd></dl><p>Continue only if you started this yourself, and the terminal in front of you shows "
    'this code. If someone else sent you the code, reject it: they could act as you.</p><form method="post" '
    'action="/api/login/device/confirm"><input type="hidden" name="user_code" value="{code}"><input '
    'type="hidden" name="csrf_token" value="{csrf}"><p><button name="answer" value="allow">Log the '
    'command line in</button> <button name="answer" value="deny">Reject</button></p></form>'
)


def enter_code(problem: str = "") -> HTMLResponse:
    render_message = Markup('<p role="alert">{}</p>').format(problem) if problem else Markup("")
    return page("Log a command line in", _ENTER.format(problem=render_message))


def confirm(asking: DeviceLoginRequest, email: str, csrf_token: str) -> HTMLResponse:
    content = _CONFIRM.format(
        email=email,
        code=asking.user_code,
        source=asking.source,
        agent=asking.user_agent or "unknown",
        since=asking.since.strftime("%Y-%m-%d %H:%M:%S"),
        csrf=csrf_token,
    )
    return page("Log a command line in?", content)


def render_message(title: str, text: str) -> HTMLResponse:
    return page(title, Markup("<p>{}</p>").format(text))


def page(title: str, content: Markup, status: int = 200) -> HTMLResponse:
    return HTMLResponse(_PAGE.format(title=title, content=content), status, headers=_HEADERS)
