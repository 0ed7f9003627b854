"""Verification of second factors. No answer is accepted twice."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from postern.domain.identity.second_factor import FactorKind, SecondFactor
from postern.domain.secret import Secret
from postern.errors import Unauthenticated
from postern.services.identity.logins import recovery_codes, totp
from postern.services.identity.logins.authenticators import Authenticators, Key, credential_id_of
from postern.services.identity.logins.passwords import Throttle
from postern.store.ports.common_ports import Clock
from postern.store.ports.identity_ports import SecondFactorStore

log = logging.getLogger(__name__)

_WINDOW = timedelta(hours=1)
_MOST_FAILURES = 10  # in that window; a guess of six digits is right with 3 in a million


@dataclass(frozen=True, slots=True)
class FactorAnswer:
    """The proof given: `code` for TOTP and recovery codes, `assertion` (JSON) for WebAuthn."""

    kind: FactorKind
    code: Secret | None = None
    assertion: Mapping[str, Any] | None = None


class FactorCheck:
    def __init__(self, store: SecondFactorStore, authenticators: Authenticators, now: Clock) -> None:
        self._store = store
        self._authenticators = authenticators
        self._now = now
        self._guesses = Throttle(now, failures=_MOST_FAILURES, window=_WINDOW)

    async def find_confirmed(self, user_id: UUID) -> list[SecondFactor]:
        """Return the confirmed factors without recovery codes, which only replace a factor."""
        factors = await self._store.of(user_id)
        return [
            factor for factor in factors if factor.confirmed_at is not None and factor.kind is not FactorKind.RECOVERY
        ]

    async def require(self, user_id: UUID, answer: FactorAnswer, challenge: bytes | None = None) -> None:
        """Check the answer. `challenge` is what an authenticator had to sign. Raises Unauthenticated, TooMany.

        Codes can be guessed, so an attempt is counted before the code is checked.
        """
        if answer.kind is FactorKind.WEBAUTHN:
            accepted = await self._check_assertion(user_id, answer.assertion, challenge)
        else:
            key = str(user_id)
            self._guesses.check(key)
            self._guesses.fail(key)
            accepted = await self._check_code(user_id, answer)
            if accepted:
                self._guesses.undo(key)
        if not accepted:
            raise Unauthenticated("the second factor was not accepted; each code works once, and for a short time")

    async def _check_code(self, user_id: UUID, answer: FactorAnswer) -> bool:
        if answer.code is None:
            return False
        check = self._totp if answer.kind is FactorKind.TOTP else self._recovery
        return await check(await self._of(user_id, answer.kind), answer.code.reveal())

    async def _totp(self, factors: Sequence[SecondFactor], code: str) -> bool:
        for factor in factors:
            step = totp.step_of(factor.material.decode(), code, self._now())
            if step is not None and await self._store.use(factor.id, step, self._now()):
                return True
        return False

    async def _recovery(self, factors: Sequence[SecondFactor], code: str) -> bool:
        digest = recovery_codes.digest_of(code)
        matching = [factor for factor in factors if hmac.compare_digest(factor.material, digest)]
        return bool(matching) and await self._store.remove(matching[0].id)

    async def _check_assertion(
        self, user_id: UUID, assertion: Mapping[str, Any] | None, challenge: bytes | None
    ) -> bool:
        if assertion is None or challenge is None:
            return False
        data = credential_id_of(assertion)
        for factor in await self._of(user_id, FactorKind.WEBAUTHN):
            key = Key.load(factor.material)
            if key.credential_id == data:
                return await self._check_counter(factor, key, assertion, challenge)
        return False

    async def _check_counter(
        self, factor: SecondFactor, key: Key, assertion: Mapping[str, Any], challenge: bytes
    ) -> bool:
        """Check the signature counter. Authenticators without one always send 0; only the challenge tells their answers
        apart."""
        try:
            counter = await self._authenticators.verify_assertion(assertion, challenge, key, factor.counter)
        except Unauthenticated as error:
            log.warning("second factor not accepted: user=%s factor=%s error=%s", factor.user_id, factor.id, error)
            raise
        if counter == factor.counter == 0:
            await self._store.touch(factor.id, self._now())
            return True
        return await self._store.use(factor.id, counter, self._now())

    async def _of(self, user_id: UUID, kind: FactorKind) -> list[SecondFactor]:
        factors = await self._store.of(user_id)
        return [factor for factor in factors if factor.kind is kind and factor.confirmed_at is not None]
