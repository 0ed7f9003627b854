"""The web application at the gateway's root: its page for every path that is not the API's, and its files.

Without a built application, the front page and the set-up page are plain HTML, and links to reviews and logins lead to
their plain pages.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse, RedirectResponse
from starlette.routing import Match
from starlette.types import Scope

from postern.api.browser import web_login_pages
from postern.api.browser.browser import browser
from postern.api.browser.plain_pages import FRONT_PAGE, plain_page_of
from postern.api.depends import services_of
from postern.api.info import info_of
from postern.api.route import Route
from postern.errors import NotFound, PosternError
from postern.web.web_assets import WebAssets

_OF_UNCHANGED = ("ETag", "Cache-Control", "Vary")  # RFC 9110 section 15.4.5


class WebAppRoute(Route):
    """Route of all paths outside the API. Other methods than GET get the API's answer for unknown paths."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        path = scope["path"]
        if scope.get("method") != "GET" or path == "/api" or path.startswith("/api/"):
            return Match.NONE, {}
        return super().matches(scope)


router = APIRouter(route_class=WebAppRoute)


@router.get("/.well-known/acme-challenge/{token}", include_in_schema=False)
def answer_acme_challenge(token: str, request: Request) -> Response:
    """Answer an HTTP-01 challenge, while the gateway orders a certificate. Raises NotFound."""
    answer: str | None = request.app.state.acme_answer(token)
    if answer is None:
        raise NotFound("there is no such challenge")
    return PlainTextResponse(answer)


@router.get("/{path:path}", include_in_schema=False)
async def web_app(path: str, request: Request) -> Response:
    """Return a file of the application, or its page: the application itself shows what is at this path. Files do not
    need the store. Without the application, or with `?plain`, return what works without scripts, or redirect to it.
    Raises NotFound, Unavailable."""
    assets: WebAssets | None = request.app.state.web_assets
    plain_page = plain_page_of(f"/{path}", request.query_params)
    if assets is None or ("plain" in request.query_params and (plain_page or not path)):
        return await _answer_plainly(path, plain_page, request)
    file = assets.answer_file(path, request.headers.get("Accept-Encoding", ""))
    if file is None and _names_file(path):
        raise NotFound(f"there is nothing at /{path}")
    answer = file or assets.answer_page((await info_of(request)).api_url, plain_page or FRONT_PAGE)
    if answer.headers.get("ETag", "") in _read_known_tags(request):
        return Response(status_code=304, headers={name: answer.headers[name] for name in _OF_UNCHANGED})
    return Response(answer.content, headers=dict(answer.headers))


async def _answer_plainly(path: str, plain_page: str | None, request: Request) -> Response:
    if path == "setup":  # no redirect: the token is in the address's fragment
        return web_login_pages.set_up()
    info = await info_of(request)
    if plain_page is not None:
        return RedirectResponse(f"{info.api_url}{plain_page}", status_code=303)
    if path:
        raise NotFound(f"there is nothing at /{path}: this gateway was installed without the web application")
    try:
        account, _, _ = await browser(request, services_of(request), info)
    except PosternError:
        return web_login_pages.front(info.api_url, None)
    return web_login_pages.front(info.api_url, account.principal)


def _names_file(path: str) -> bool:
    """Return True for a path that only a file can have: an old page asks for files that a new version lacks, and must
    not get a page in their place."""
    return path.startswith("assets/") or ("/" not in path and "." in path)  # /sql/orders.prod names a connection


def _read_known_tags(request: Request) -> set[str]:
    """Return the tags of what the browser has."""
    return {tag.strip() for tag in request.headers.get("If-None-Match", "").split(",")} - {""}
