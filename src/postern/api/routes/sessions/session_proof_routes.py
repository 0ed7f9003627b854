"""The proof of one session."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.responses import errors
from postern.api.schemas.sessions.session_proof_schemas import SessionProofAnswer

router = APIRouter(prefix="/sessions", tags=["Sessions"], route_class=AuditedRoute)


@router.get("/{session_id}/proof", responses=errors(404))
async def get_session_proof(session_id: str, caller: Caller, services: Use) -> SessionProofAnswer:
    """Return where the ledger has the session, the hashes of its recording, the checkpoint that covers it, and the last
    verification. Nothing is verified. For the owner, administrators and auditors."""
    return SessionProofAnswer.of(await services.session_proofs.get(caller, session_id))


@router.post("/{session_id}/proof", responses=errors(404, 409, 429))
async def verify_session(session_id: str, caller: Caller, services: Use) -> SessionProofAnswer:
    """Verify now that neither the session nor its recording was changed, by the keys in the store: its row, its
    segments, and the ledger up to the checkpoint that covers it. 409 before a checkpoint covers it, and for a recording
    of more than 512 MiB, which `postern recordings verify` verifies."""
    return SessionProofAnswer.of(await services.session_proofs.verify(caller, session_id))
