"""The pages of local login: plain HTML, every value escaped."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

from fastapi.responses import HTMLResponse
from markupsafe import Markup

from postern.api.browser import pages
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.principal import Principal

LOGIN, FACTOR, SETUP = "/api/web/login", "/api/web/second-factor", "/api/web/setup"

_LOGIN = Markup(
    '{problem}<form method="post" action="{action}">'
    '<input type="hidden" name="back" value="{back}"><input type="hidden" name="organization" value="{organization}">'
    '<p><label>{label}<br><input name="email" type="{kind}" autocomplete="username" autofocus required '
    'maxlength="255"></label></p>'
    '<p><label>Password<br><input name="password" type="password" autocomplete="current-password" required '
    'maxlength="1024"></label></p><p><button>Log in</button></p></form>'
)
_FACTOR = Markup(
    '{problem}<form method="post" action="{action}">'
    '<input type="hidden" name="back" value="{back}"><input type="hidden" name="ticket" value="{ticket}">'
    '<p><label>Code of your authenticator, or a recovery code<br><input name="code" autocomplete="one-time-code" '
    'autofocus required maxlength="64"></label></p><p><button>Continue</button></p></form>'
)
_SETUP = Markup(
    '{problem}<form method="post" action="{action}">'
    '<p><label>Set-up token: the part of your link after #token=<br><input name="token" autocomplete="off" required '
    'maxlength="512" value="{token}"></label></p>'
    '<p><label>New password<br><input name="password" type="password" autocomplete="new-password" required '
    'maxlength="1024"></label></p>'
    '<p><label>New password again<br><input name="again" type="password" autocomplete="new-password" required '
    'maxlength="1024"></label></p><p><button>Set the password</button></p></form><script>{script}</script>'
)
_FRONT = Markup(
    "<p>This is the gateway at <strong>{url}</strong>. {who}</p>"
    "<p>On a command line: <code>postern login {url}</code></p>"
)
# A browser does not send the part after #, so a set-up token is in no server's log. Only a script can put it into the
# form; the policy allows only this script, and without scripts the token can be pasted.
_SCRIPT = Markup(
    "const t=new URLSearchParams(location.hash.slice(1)).get('token');"
    "if(t){document.forms[0].elements.token.value=t;history.replaceState(null,'',location.pathname)}"
)
_SCRIPT_HASH = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()


@dataclass(frozen=True, slots=True)
class Back:
    """The destination after a login: a path of this gateway, and the organisation to log in to."""

    path: str
    organization: str = ""


def login(back: Back, method: LoginMethod, problem: str = "", status: int = 200) -> HTMLResponse:
    """Return the form for a password, which belongs to an e-mail address or to a user name of a directory."""
    label, kind = ("User name", "text") if method is LoginMethod.LDAP else ("E-mail address", "email")
    content = _LOGIN.format(
        problem=_problem(problem),
        action=LOGIN,
        back=back.path,
        organization=back.organization,
        label=label,
        kind=kind,
    )
    return pages.page("Log in", content, status)


def second_factor(back: str, ticket: str, problem: str = "", status: int = 200) -> HTMLResponse:
    content = _FACTOR.format(problem=_problem(problem), action=FACTOR, back=back, ticket=ticket)
    return pages.page("Log in: second step", content, status)


def set_up(problem: str = "", token: str = "", status: int = 200) -> HTMLResponse:
    content = _SETUP.format(problem=_problem(problem), action=SETUP, token=token, script=_SCRIPT)
    response = pages.page("Set your password", content, status)
    policy = response.headers["Content-Security-Policy"]
    response.headers["Content-Security-Policy"] = f"{policy}; script-src 'sha256-{_SCRIPT_HASH}'"
    return response


def front(url: str, principal: Principal | None) -> HTMLResponse:
    if principal is None:
        who = Markup('<a href="{}">Log in with this browser</a>.').format(LOGIN)
    else:
        who = Markup("You are logged in with this browser as {}.").format(principal.email)
    return pages.page("Postern", _FRONT.format(url=url, who=who))


def _problem(text: str) -> Markup:
    return Markup('<p role="alert">{}</p>').format(text) if text else Markup("")
