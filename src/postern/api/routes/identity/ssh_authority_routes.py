"""SSH certificate authorities of an organisation's users."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.crud import ResourceRoutes
from postern.api.schemas.identity.ssh_schemas import SshAuthorityAnswer, SshAuthorityRequest

router = APIRouter(tags=["User Management"], route_class=AuditedRoute)
ResourceRoutes(
    path="/sshauthorities",
    names=("ssh_authority", "ssh_authorities"),
    service=lambda services: services.ssh_authorities,
    request=SshAuthorityRequest,
    answer=SshAuthorityAnswer,
    texts={
        "create": "A certificate that it signed logs in the user with the e-mail address or subject in the "
        "certificate. An authority belongs to one organisation only. For logged-in users only.",
        "update": "Its public key cannot change.",
        "delete": "Sessions that use its certificates end at once.",
    },
).add_to(router)
