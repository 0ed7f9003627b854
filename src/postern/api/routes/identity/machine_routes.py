"""Machine identities: programs that reach connections with a native client."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.info import Info
from postern.api.paging import ListAnswer, Paging, listed
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

router = APIRouter(prefix="/machineidentities", tags=["User Management"], route_class=AuditedRoute)


@router.get("", responses=errors(403))
async def list_machine_identities(caller: Caller, services: Use, page: Paging) -> ListAnswer[MachineAnswer]:
    """By name, for administrators and auditors."""
    found = await services.machines.find(caller, page)
    return listed([MachineAnswer.of(machine) for machine in found.items], found, page)


@router.post("", status_code=201, responses=errors(403, 409, 413))
async def create_machine_identity(body: MachineRequest, caller: Caller, services: Use, info: Info) -> NewMachineAnswer:
    """With a credential for each connection, whose password is shown this once."""
    made = await services.machines.create(caller, body.name, body.fields())
    shown = MachineAnswer.of(made.machine).model_dump()
    return NewMachineAnswer(**shown, credentials=[issued_answer(issued, info) for issued in made.issued])


@router.get("/{name}", responses=errors(403, 404))
async def get_machine_identity(name: str, caller: Caller, services: Use) -> MachineAnswer:
    return MachineAnswer.of(await services.machines.get(caller, name))


@router.put("/{name}", responses=errors(403, 404, 413))
async def update_machine_identity(
    name: str, body: MachineChangeRequest, caller: Caller, services: Use, info: Info
) -> ChangedMachineAnswer:
    """Issues credentials for added connections, and revokes those for removed ones."""
    changed = await services.machines.update(caller, name, body.fields())
    shown = MachineAnswer.of(changed.machine).model_dump()
    return ChangedMachineAnswer(**shown, new_credentials=[issued_answer(issued, info) for issued in changed.issued])


@router.delete("/{name}", status_code=204, responses=errors(403, 404))
async def delete_machine_identity(name: str, caller: Caller, services: Use) -> None:
    """With its credentials; its live sessions end."""
    await services.machines.remove(caller, name)


@router.get("/{name}/credentials", responses=errors(403, 404))
async def list_machine_credentials(name: str, caller: Caller, services: Use) -> ListAnswer[CredentialAnswer]:
    """Newest first, ended ones too; never a secret."""
    found = await services.machines.credentials(caller, name)
    shown = [CredentialAnswer.of(credential, connection, services.now()) for credential, connection in found]
    return ListAnswer(data=shown, total=len(shown), has_next_page=False)


@router.post("/{name}/credentials/{connection}/rotate", responses=errors(403, 404, 413))
async def rotate_machine_credential(
    name: str, connection: str, caller: Caller, services: Use, info: Info, body: RotationRequest | None = None
) -> IssuedCredentialAnswer:
    """A new password, shown this once. The old one is good for `overlap_seconds` more."""
    given = body or RotationRequest(overlap_seconds=None, access_duration_seconds=None)
    overlap, seconds = given.overlap_seconds or 0, given.access_duration_seconds
    return issued_answer(
        await services.machines.rotate(caller, name, connection, overlap=overlap, seconds=seconds), info
    )
