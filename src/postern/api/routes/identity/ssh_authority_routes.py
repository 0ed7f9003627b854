"""Who signs the SSH certificates of an organisation's users."""

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
        "create": "From now on whoever has a certificate that it signed is the user whose e-mail address or subject "
        "that names. An authority vouches for one organisation only. By people only.",
        "update": "Its public key stays.",
        "delete": "What runs by its certificates ends at once.",
    },
).add_to(router)
