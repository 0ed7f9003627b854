"""Machine identities: programs that use connections with a native client."""

from __future__ import annotations

from fastapi import APIRouter, Request

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.crud import Key, ResourceRoutes
from postern.api.info import Info, info_of
from postern.api.paging import ListAnswer
from postern.api.responses import errors
from postern.api.schemas.identity.program_schemas import (
    ChangedMachineAnswer,
    MachineAnswer,
    MachineChangeRequest,
    MachineRequest,
    NewMachineAnswer,
    RotationRequest,
    issued_answer,
)
from postern.api.schemas.targets.connection_schemas import CredentialAnswer, IssuedCredentialAnswer
from postern.domain.identity.machine import MachineIdentity
from postern.domain.identity.principal import Principal

router = APIRouter(tags=["User Management"], route_class=AuditedRoute)


async def _show(resource: MachineIdentity, request: Request, _: Principal) -> MachineAnswer:
    answer = MachineAnswer.of(resource)
    if request.method == "GET":
        return answer
    info = await info_of(request)
    issued = [issued_answer(issued_credential, info) for issued_credential in resource.issued]
    if request.method == "POST":
        return NewMachineAnswer(**answer.model_dump(), credentials=issued)
    return ChangedMachineAnswer(**answer.model_dump(), new_credentials=issued)


ResourceRoutes(
    path="/machineidentities",
    names=("machine_identity", "machine_identities"),
    service=lambda services: services.machines,
    request=MachineRequest,
    change=MachineChangeRequest,
    answer=MachineAnswer,
    written={"create": NewMachineAnswer, "replace": ChangedMachineAnswer, "update": ChangedMachineAnswer},
    show=_show,
    texts={
        "list": "By name, for administrators and auditors.",
        "create": "Each connection gets a credential, whose password is shown only once.",
        "update": "Added connections get a credential, removed ones lose theirs. The connections stay if "
        "`connection_names` is left out.",
        "delete": "Its credentials are deleted, and its running sessions end.",
    },
).add_to(router)


@router.get("/machineidentities/{nameOrID}/credentials", responses=errors(403, 404))
async def list_machine_credentials(key: Key, caller: Caller, services: Use) -> ListAnswer[CredentialAnswer]:
    """List its credentials, newest first, with those that have ended; never a secret."""
    credentials = await services.machines.credentials(caller, key)
    answers = [CredentialAnswer.of(credential, connection, services.now()) for credential, connection in credentials]
    return ListAnswer(data=answers, total=len(answers), has_next_page=False)


@router.post("/machineidentities/{nameOrID}/credentials/{connection}/rotate", responses=errors(403, 404, 413))
async def rotate_machine_credential(
    key: Key, connection: str, caller: Caller, services: Use, info: Info, body: RotationRequest | None = None
) -> IssuedCredentialAnswer:
    """Replace a password. The new one is shown only once; the old one stays valid for `overlap_seconds`."""
    request = body or RotationRequest(overlap_seconds=None, access_duration_seconds=None)
    overlap, seconds = request.overlap_seconds or 0, request.access_duration_seconds
    return issued_answer(
        await services.machines.rotate(caller, key, connection, overlap=overlap, seconds=seconds), info
    )
