"""The caller's second factors, and their reset by an administrator."""

from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Address, Caller, CallerInFull, EnrollingCaller, Use
from postern.api.crud import Key
from postern.api.responses import errors
from postern.api.schemas.identity.local_auth_schemas import (
    ConfirmRequest,
    EnrolmentAnswer,
    EnrolRequest,
    FactorAnswerShown,
    FactorsAnswer,
    ProofRequest,
    RecoveryCodesAnswer,
)
from postern.domain.identity.second_factor import FactorKind
from postern.domain.secret import Secret

router = APIRouter(prefix="/users", tags=["User Management"], route_class=AuditedRoute)


@router.get("/self/second-factors", responses=errors())
async def list_second_factors(caller: EnrollingCaller, services: Use) -> FactorsAnswer:
    """List the caller's confirmed factors, ten at most, oldest first."""
    factors = await services.second_factors.own(caller.principal)
    codes = [factor for factor in factors if factor.kind is FactorKind.RECOVERY]
    answers = [
        FactorAnswerShown.of(second_factor)
        for second_factor in factors
        if second_factor.kind is not FactorKind.RECOVERY
    ]
    return FactorsAnswer(data=answers, recovery_codes_left=len(codes))


@router.post("/self/second-factors", status_code=201, response_model_exclude_none=True, responses=errors(413, 429))
async def enrol_second_factor(
    body: EnrolRequest, caller: EnrollingCaller, services: Use, address: Address
) -> EnrolmentAnswer:
    """Begin to add a factor; it must be confirmed within ten minutes."""
    enrolment = await services.second_factors.enrol(caller, body.kind, body.name, body.proof(), address)
    return EnrolmentAnswer.of(enrolment)


@router.post("/self/second-factors/recovery-codes", status_code=201, responses=errors(413, 429))
async def renew_recovery_codes(
    body: ProofRequest, caller: CallerInFull, services: Use, address: Address
) -> RecoveryCodesAnswer:
    """Create ten new recovery codes; the old ones stop working."""
    codes = await services.second_factors.new_recovery_codes(caller, body.proof(), address)
    return RecoveryCodesAnswer(recovery_codes=codes)


@router.post("/self/second-factors/{factor_id}/confirm", responses=errors(404, 413, 429))
async def confirm_second_factor(
    factor_id: UUID, body: ConfirmRequest, caller: EnrollingCaller, services: Use
) -> RecoveryCodesAnswer:
    """Confirm a factor with a proof. The first factor ends all other logins, and returns recovery codes."""
    code = Secret(body.code) if body.code is not None else None
    return RecoveryCodesAnswer(
        recovery_codes=await services.second_factors.confirm(caller, factor_id, code, body.credential)
    )


@router.delete("/self/second-factors/{factor_id}", status_code=204, responses=errors(404, 413, 429))
async def remove_second_factor(
    factor_id: UUID, body: ProofRequest, caller: CallerInFull, services: Use, address: Address
) -> None:
    """Remove a factor. Needs the password, or a fresh code, in the body."""
    await services.second_factors.remove(caller, factor_id, body.proof(), address)


@router.delete("/{nameOrID}/second-factors", status_code=204, responses=errors(404))
async def reset_second_factors(key: Key, caller: Caller, services: Use) -> None:
    """Remove all factors of a user, and end their logins. For administrators."""
    await services.second_factors.reset(caller, key)
