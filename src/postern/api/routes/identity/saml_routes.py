"""Login at a SAML identity provider: the redirect there, the callback, and the gateway's metadata."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from postern.api.audited import AuditedRoute, record_login
from postern.api.authentication_of_requests import Address, Facts, Use
from postern.api.browser.cookies import set_login_cookie
from postern.api.browser.saml_cookie import clear_saml_cookie, saml_cookie, set_saml_cookie
from postern.api.info import Info
from postern.api.responses import open_errors
from postern.api.schemas.identity.login_schemas import AtOrganization, CodeChallenge, LoginUrlAnswer, Redirect
from postern.errors import Malformed
from postern.services.identity.logins.saml_login import SamlReturned, SamlSignInRequest

router = APIRouter(prefix="/saml", tags=["Authentication"], route_class=AuditedRoute)

_FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 10
_FORM_SCHEMA = {
    "type": "object",
    "required": ["SAMLResponse", "RelayState"],
    "properties": {
        "SAMLResponse": {"type": "string", "description": "The provider's answer in Base64"},
        "RelayState": {"type": "string", "description": "The `RelayState` of the request"},
    },
}


@router.get("/login", responses=open_errors(429))
async def saml_login(
    services: Use,
    info: Info,
    address: Address,
    response: Response,
    redirect: Redirect = None,
    code_challenge: CodeChallenge = None,
    organization: AtOrganization = None,
    force_authn: Annotated[bool, Query(description="Whether the provider must authenticate the user again")] = False,
) -> LoginUrlAnswer:
    """Return the URL of the login at the organisation's SAML provider. 400 if users log in in a different way."""
    login_request = SamlSignInRequest(redirect, code_challenge, organization, force_authn)
    started = await services.saml_login.begin(login_request, api_url=info.api_url, address=address)
    set_saml_cookie(response, started, info)
    return LoginUrlAnswer(login_url=started.login_url)


@router.post(
    "/callback",
    status_code=303,
    response_class=RedirectResponse,
    responses=open_errors(403, 413),
    openapi_extra={"requestBody": {"required": True, "content": {_FORM: {"schema": _FORM_SCHEMA}}}},
)
async def saml_callback(request: Request, services: Use, info: Info, facts: Facts) -> RedirectResponse:
    """Receive the browser from the SAML provider's page. A browser gets its session in a cookie; a command line gets a
    `code` for POST /api/login/exchange. Errors are sent to the redirect target as `error` and `error_description`; 403
    if the answer belongs to no request of this gateway."""
    response_text, relay_state = await _form(request)
    returned = SamlReturned(response_text, relay_state, saml_cookie(request, relay_state, info))
    landed = await services.saml_login.finish(returned, facts, api_url=info.api_url)
    response = RedirectResponse(landed.url, status_code=303)
    clear_saml_cookie(response, relay_state, info)
    if landed.account is not None:
        await record_login(request, landed.account.principal, "saml")
    if landed.opened is not None:
        set_login_cookie(response, landed.opened, info)
    return response


@router.get(
    "/metadata",
    response_class=Response,
    responses={
        200: {
            "description": "The gateway's metadata, for the provider's administrator",
            "content": {"application/samlmetadata+xml": {"schema": {"type": "string"}}},
        },
        **open_errors(),
    },
)
async def saml_metadata(services: Use, info: Info) -> Response:
    """Return what a SAML provider must know about this gateway."""
    content = services.saml_login.metadata(api_url=info.api_url)
    return Response(content, media_type="application/samlmetadata+xml")


async def _form(request: Request) -> tuple[str, str]:
    """Return SAMLResponse and RelayState, each at most once. Raises Malformed."""
    media_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type != _FORM:
        raise Malformed(f"the body must be of the type {_FORM}, which identity providers' pages send")
    try:
        fields = parse_qs((await request.body()).decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise Malformed("the body is not a valid form, or has too many fields") from None
    response, state = fields.get("SAMLResponse", []), fields.get("RelayState", [""])
    if len(response) != 1 or len(state) != 1:
        raise Malformed("the form must have one SAMLResponse and at most one RelayState")
    return response[0], state[0]
