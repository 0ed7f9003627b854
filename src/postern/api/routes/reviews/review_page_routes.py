"""The page where a review is decided in a browser, without scripts; the web application has its own."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Use
from postern.api.browser import review_pages
from postern.api.browser.browser import SHOWN, browser, form_of, require_own_form, to_login
from postern.api.browser.cookies import csrf_token_of
from postern.api.browser.plain_pages import REVIEW_PAGES
from postern.api.info import Info, ServerAddresses
from postern.api.responses import open_errors
from postern.domain.chat import card_of
from postern.domain.identity.principal import Principal
from postern.domain.page_addresses import review_address
from postern.domain.reviews.review import Choice
from postern.domain.reviews.review_groups import allowed_decisions, shows_estimate
from postern.domain.secret import Secret
from postern.errors import Conflict, Denied, Invalid, Malformed, NotFound, Unauthenticated
from postern.services.bundle import Services

router = APIRouter(prefix="/reviews/page", tags=["Reviews"], route_class=AuditedRoute)

_ANSWERS = {
    "approve": (Choice.APPROVED, False),
    "force": (Choice.APPROVED, True),
    "reject": (Choice.REJECTED, False),
    "revoke": (Choice.REVOKED, False),
}
_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "application/x-www-form-urlencoded": {
                "schema": {
                    "type": "object",
                    "required": ["csrf_token", "answer"],
                    "properties": {
                        "csrf_token": {"type": "string"},
                        "answer": {"type": "string", "enum": list(_ANSWERS)},
                        "reason": {"type": "string"},
                    },
                }
            }
        },
    }
}


@router.get(
    "/{id}",
    response_class=Response,
    responses=open_errors(401, 403, 429) | SHOWN | {303: {"description": "Redirect to the login"}},
)
async def review_page(id: str, request: Request, services: Use, info: Info) -> Response:  # noqa: A002 - the API's name
    """Show the page to users: the request, the requester, and a form to decide. Needs the browser's session;
    redirects to the login without it."""
    try:
        account, _, secret = await browser(request, services, info)
    except Unauthenticated:
        return await to_login(request, services, info, f"{REVIEW_PAGES}/{quote(id, safe='')}")
    try:
        return await _render_review(services, info, account.principal, id, secret)
    except NotFound as problem:
        return review_pages.missing(problem.message)


@router.post(
    "/{id}",
    response_class=Response,
    responses=open_errors(400, 401, 403, 413, 429) | SHOWN,
    openapi_extra=_FORM,
)
async def decide_on_page(id: str, request: Request, services: Use, info: Info) -> HTMLResponse:  # noqa: A002
    """Receive the page's form. The page shows errors."""
    account, _, secret = await browser(request, services, info)
    request.state.principal = account.principal
    form = await form_of(request)
    require_own_form(request, form, secret, info)
    if form.get("answer") not in _ANSWERS:
        raise Malformed(f"answer: must be one of {', '.join(_ANSWERS)}")
    choice, force = _ANSWERS[form["answer"]]
    reason = form.get("reason", "").strip()
    problem, status = "", 200
    try:
        if choice is not Choice.APPROVED and not reason:
            raise Invalid("reason: give a reason for the rejection", field="reason")
        await services.reviews.decide(account.principal, id, choice, force=force, comment=reason)
    except NotFound as error:
        return review_pages.missing(error.message)
    except (Denied, Conflict, Invalid) as error:
        problem = error.message
        status = {Denied: 403, Conflict: 409, Invalid: 422}[type(error)]
    return await _render_review(services, info, account.principal, id, secret, problem, status)


async def _render_review(
    services: Services,
    info: ServerAddresses,
    principal: Principal,
    key: str,
    token: Secret,
    problem: str = "",
    status: int = 200,
) -> HTMLResponse:
    review = await services.reviews.get(principal, key)
    script = await services.reviews.script(review)
    url = review_address(info.api_url, review.id)
    card = card_of(review, script, url, with_input=True, with_estimate=shows_estimate(review, principal))
    page = review_pages.ReviewPage(principal.email, csrf_token_of(token), allowed_decisions(review, principal), problem)
    return review_pages.review(card, page, status)
