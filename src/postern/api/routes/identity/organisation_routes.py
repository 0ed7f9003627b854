"""Organisations."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.crud import Version, etag_of
from postern.api.paging import ListAnswer, Paging, make_list_answer
from postern.api.resource_kinds import register, setting
from postern.api.responses import errors
from postern.api.schemas.identity.organisation_schemas import (
    NewOrganisationAnswer,
    OrganisationAnswer,
    OrganisationChange,
    OrganisationFeatureRequest,
    OrganisationRequest,
)
from postern.domain.identity.organisation import Organisation

router = APIRouter(prefix="/orgs", tags=["Organization Management"], route_class=AuditedRoute)
register(setting("organisation", f"{router.prefix}/self", OrganisationChange))


@router.get("", responses=errors())
async def list_organisations(caller: Caller, services: Use, page: Paging) -> ListAnswer[OrganisationAnswer]:
    """List organisations by name; all for administrators of the default organisation, else the caller's own."""
    listed = await services.organisations.find(caller, page)
    return make_list_answer([OrganisationAnswer.of(item) for item in listed.items], listed, page)


@router.post("", status_code=201, responses=errors(403, 409, 413, 429))
async def create_organisation(body: OrganisationRequest, caller: Caller, services: Use) -> NewOrganisationAnswer:
    """Create an organisation, as an administrator of the default one. The answer contains the set-up link's secret for
    its administrator."""
    organisation = await services.organisations.create(
        caller, body.name, body.admin_email, embedded_agent=body.embedded_agent
    )
    return NewOrganisationAnswer.from_new_organisation(organisation)


@router.get("/self", responses=errors(404))
async def get_own_organisation(caller: Caller, services: Use, response: Response) -> OrganisationAnswer:
    return _answer(await services.organisations.own(caller), response)


@router.put("/self", responses=errors(403, 404, 409, 412, 413))
async def update_own_organisation(
    body: OrganisationChange, caller: Caller, services: Use, version: Version, response: Response
) -> OrganisationAnswer:
    """Change the caller's organisation. Administrators and auditors keep their role if its group changes."""
    return _answer(await services.organisations.update(caller, body.fields(), version), response)


def _answer(organisation: Organisation, response: Response) -> OrganisationAnswer:
    response.headers["ETag"] = etag_of(organisation.version)
    return OrganisationAnswer.of(organisation)


@router.delete("/{org_id}", status_code=202, responses=errors(403, 404, 409))
async def delete_organisation(
    org_id: str,
    name: Annotated[str, Query(description="The organisation's name, as a confirmation", max_length=255)],
    caller: Caller,
    services: Use,
) -> OrganisationAnswer:
    """Delete an organisation with its record, as an administrator of the default one.

    All access to it ends at once, and its data is deleted in the background; it is listed until then. Legal holds
    prevent it. It cannot be undone.
    """
    return OrganisationAnswer.of(await services.organisations.delete(caller, org_id, name))


@router.put("/features", status_code=204, responses=errors(403, 404, 413))
async def update_organisation_feature(body: OrganisationFeatureRequest, caller: Caller, services: Use) -> None:
    """Switch a feature on or off, like PUT /feature-flags/{name}."""
    await services.features.put(caller, body.name, enabled=body.status == "enabled")
