"""Where a login may end."""

from __future__ import annotations

import pytest

from postern.domain.identity.login import ClientKind
from postern.errors import Invalid
from postern.services.identity.logins.redirect_targets import redirect_target_of

API = "https://pg.example:7480"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


@pytest.mark.parametrize(
    ("redirect", "url"),
    [
        (None, f"{API}/"),
        ("", f"{API}/"),
        ("/", f"{API}/"),
        ("/sessions?tab=mine&x=%2F", f"{API}/sessions?tab=mine&x=%2F"),
        (f"{API}/sessions", f"{API}/sessions"),
    ],
)
def test_the_web_app(redirect: str | None, url: str) -> None:
    redirect_target = redirect_target_of(redirect, None, API)
    assert (redirect_target.url, redirect_target.client, redirect_target.code_challenge) == (url, ClientKind.WEB, "")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_command_line_on_the_same_machine(host: str) -> None:
    redirect_target = redirect_target_of(f"http://{host}:3587/x?a=b", CHALLENGE, API)
    assert (redirect_target.client, redirect_target.code_challenge) == (ClientKind.CLI, CHALLENGE)
    assert redirect_target.with_query(code="c d&e") == f"http://{host}:3587/x?a=b&code=c+d%26e"
    assert redirect_target.with_query(a="other") == f"http://{host}:3587/x?a=other"


@pytest.mark.parametrize(
    "redirect", ["https://pg.example/", "http://pg.example:7480/", "https://pg.example:7480.evil/"]
)
def test_another_origin(redirect: str) -> None:
    with pytest.raises(Invalid, match="redirect"):
        redirect_target_of(redirect, CHALLENGE, API)
