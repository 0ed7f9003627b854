"""Step-up: the user of a login proves again who they are, before something that a stolen session must not reach.

The proof is a second factor, or the password of an account without one. It makes the login fresh for a short time.
Users of an identity provider log in there again, which is a new login.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from postern.domain.identity.login import PASSWORD_METHODS, Login, TokenPurpose
from postern.domain.identity.second_factor import FactorKind, SecondFactor
from postern.domain.secret import Secret
from postern.errors import Denied, Invalid, Unauthenticated
from postern.services.identity.accounts import Accounts
from postern.services.identity.logins.authentication import Caller
from postern.services.identity.logins.authenticators import (
    Authenticators,
    Key,
    challenge_of,
    challenge_text,
    new_challenge,
)
from postern.services.identity.logins.factor_check import FactorAnswer, FactorCheck
from postern.services.identity.logins.logins import Logins
from postern.services.identity.logins.one_time_tokens import OneTimeTokens
from postern.services.server.audit_context import record_change

CHALLENGE_LIFE = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class StepUpChallenge:
    """What the user has to prove: one of `factors`, or the password where there is none.

    `request` is the argument for `navigator.credentials.get`, and `ticket` belongs to its result; both are None without
    an authenticator.
    """

    factors: tuple[SecondFactor, ...]
    ticket: Secret | None
    request: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class StepUpProof:
    """A proof: `answer` of a second factor, with the `ticket` of an authenticator's challenge; or the password."""

    password: Secret | None = None
    answer: FactorAnswer | None = None
    ticket: Secret | None = None


class StepUp:
    def __init__(
        self,
        *,
        accounts: Accounts,
        logins: Logins,
        one_time_tokens: OneTimeTokens,
        check: FactorCheck,
        authenticators: Authenticators,
    ) -> None:
        self._accounts = accounts
        self._logins = logins
        self._one_time_tokens = one_time_tokens
        self._check = check
        self._authenticators = authenticators

    async def begin(self, caller: Caller) -> StepUpChallenge:
        """Return what the caller has to prove. An earlier challenge becomes invalid. Raises Denied."""
        login = _local_login_of(caller)
        factors = tuple(await self._check.find_confirmed(login.user_id))
        keys = [Key.load(factor.material) for factor in factors if factor.kind is FactorKind.WEBAUTHN]
        if not keys:
            return StepUpChallenge(factors, None, None)
        challenge = new_challenge()
        payload = {
            "user_id": str(login.user_id),
            "login_id": str(login.id),
            "challenge": challenge_text(challenge),
        }
        await self._one_time_tokens.forget(TokenPurpose.STEP_UP, login.user_id)
        ticket = await self._one_time_tokens.issue(TokenPurpose.STEP_UP, payload, CHALLENGE_LIFE)
        return StepUpChallenge(factors, ticket, await self._authenticators.assertion_options(challenge, keys))

    async def confirm(self, caller: Caller, proof: StepUpProof, address: str) -> Login:
        """Check the proof, and return the login, which is fresh now. Raises Denied for a wrong proof, Invalid, TooMany.

        A wrong second factor is Denied and not Unauthenticated: the login itself stays valid.
        """
        login = _local_login_of(caller)
        if await self._check.find_confirmed(login.user_id):
            try:
                await self._require_factor(login, proof)
            except Unauthenticated as error:
                raise Denied(error.message) from None
        elif proof.password is None:
            raise Invalid("password: is required, because this account has no second factor", field="password")
        else:
            await self._accounts.require_password(caller.principal, proof.password, address)
        confirmed = await self._logins.confirm(login)
        record_change(
            {"id": login.id, "fresh_until": login.fresh_until}, {"id": login.id, "fresh_until": confirmed.fresh_until}
        )
        return confirmed

    async def _require_factor(self, login: Login, proof: StepUpProof) -> None:
        if proof.answer is None:
            raise Invalid("kind: is required, because this account has a second factor", field="kind")
        challenge = None
        if proof.answer.kind is FactorKind.WEBAUTHN:
            if proof.ticket is None:
                raise Invalid("ticket: is required; POST /api/login/step-up/challenge returns it", field="ticket")
            payload = await self._one_time_tokens.take(TokenPurpose.STEP_UP, proof.ticket)
            if payload["login_id"] != str(login.id):
                raise Denied("this ticket belongs to a different login; request a new challenge")
            challenge = challenge_of(payload["challenge"])
        await self._check.require(login.user_id, proof.answer, challenge)


def _local_login_of(caller: Caller) -> Login:
    """Return the login. Raises Denied for callers that have nothing to prove here."""
    if caller.login is None:
        raise Denied("only a user's login can be confirmed again; API keys and tokens of an identity provider cannot")
    if caller.login.method not in PASSWORD_METHODS:
        raise Denied("you log in at your identity provider: log out here, and log in there again")
    return caller.login
