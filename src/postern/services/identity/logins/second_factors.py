"""Second factors of users: enrolled, confirmed, removed; and the users that must have one.

A change needs the password again, or a code of an existing factor, so that a stolen session does not give lasting
access. Only a user who must have a factor and has none can enrol the first one right after logging in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from postern.domain.identity.login import PASSWORD_METHODS, Login
from postern.domain.identity.principal import Principal, PrincipalKind
from postern.domain.identity.second_factor import FactorKind, SecondFactor
from postern.domain.secret import Secret
from postern.errors import Denied, Invalid, NotFound, Unauthenticated
from postern.services.identity.accounts import Accounts
from postern.services.identity.logins import recovery_codes, totp
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
from postern.services.server.audit_context import record_change
from postern.services.server.auth_configs import AuthConfigs
from postern.store.ports.common_ports import Clock
from postern.store.ports.identity_ports import PrincipalStore, SecondFactorStore

ENROLMENT_LIFE = timedelta(minutes=10)  # between asking for a factor and proving it
JUST_LOGGED_IN = timedelta(minutes=30)
MOST = 10  # factors of a user
_MAX_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class FactorProof:
    """Proof that it is still the same user: the password, or a code of an authenticator app or a recovery code."""

    password: Secret | None = None
    answer: FactorAnswer | None = None


@dataclass(frozen=True, slots=True)
class FactorEnrolment:
    """What is shown once: the key of an authenticator app, or the argument for `navigator.credentials.create`."""

    factor: SecondFactor
    key: Secret | None = None
    uri: Secret | None = None
    creation: Mapping[str, Any] | None = None


class RequiredFactors:
    """Tells which logins have to enrol a second factor first."""

    def __init__(self, check: FactorCheck, auth_configs: AuthConfigs) -> None:
        self._check = check
        self._auth_configs = auth_configs
        # Logins with a proven factor, and their users.
        self._satisfied: OrderedDict[UUID, UUID] = OrderedDict()

    async def is_required(self, org_id: UUID) -> bool:
        return (await self._auth_configs.of(org_id)).require_second_factor

    async def is_missing(self, login: Login) -> bool:
        if login.method not in PASSWORD_METHODS or not await self.is_required(login.org_id):
            return False
        if login.id in self._satisfied:
            return False
        if not await self._check.find_confirmed(login.user_id):
            return True
        self._satisfied[login.id] = login.user_id
        if len(self._satisfied) > _MAX_REMEMBERED:
            self._satisfied.popitem(last=False)
        return False

    def forget(self, user_id: UUID) -> None:
        """Forget that the user has a factor."""
        for login_id in [key for key, owner in self._satisfied.items() if owner == user_id]:
            del self._satisfied[login_id]


class SecondFactors:
    def __init__(
        self,
        *,
        store: SecondFactorStore,
        principals: PrincipalStore,
        accounts: Accounts,
        logins: Logins,
        check: FactorCheck,
        required: RequiredFactors,
        authenticators: Authenticators,
        now: Clock,
    ) -> None:
        self._store = store
        self._principals = principals
        self._accounts = accounts
        self._logins = logins
        self._check = check
        self._required = required
        self._authenticators = authenticators
        self._now = now

    async def own(self, principal: Principal) -> list[SecondFactor]:
        """Return confirmed factors, oldest first, with one entry for each unused recovery code."""
        return [factor for factor in await self._store.of(principal.id) if factor.confirmed_at is not None]

    async def enrol(
        self, caller: Caller, kind: FactorKind, name: str, proof: FactorProof, address: str
    ) -> FactorEnrolment:
        """Start an enrolment, to be confirmed within ENROLMENT_LIFE. An earlier unconfirmed one is dropped.

        Raises Denied, Unauthenticated and TooMany for the proof, Invalid.
        """
        principal = caller.principal
        if kind is FactorKind.RECOVERY:
            raise Invalid("kind: recovery codes are created with the first second factor", field="kind")
        await self._require_same_person(caller, proof, address)
        confirmed = await self._check.find_confirmed(principal.id)
        if len(confirmed) >= MOST:
            raise Invalid(f"you already have {MOST} second factors; remove one first")
        for old in await self._store.of(principal.id):
            if old.confirmed_at is None:
                await self._store.remove(old.id)
        factor = SecondFactor(uuid4(), principal.id, kind, _checked_name(name), b"", self._now())
        if kind is FactorKind.TOTP:
            key = totp.new_key()
            factor = replace(factor, material=key.encode())
            enrolment = FactorEnrolment(factor, Secret(key), Secret(totp.uri_of(key, principal.email)))
        else:
            challenge = new_challenge()
            keys = [
                Key.load(second_factor.material)
                for second_factor in confirmed
                if second_factor.kind is FactorKind.WEBAUTHN
            ]
            creation = await self._authenticators.registration_options(principal, challenge, keys)
            factor = replace(factor, material=challenge_text(challenge).encode())
            enrolment = FactorEnrolment(factor, creation=creation)
        await self._store.add(factor)
        record_change(None, factor)
        return enrolment

    async def confirm(
        self, caller: Caller, factor_id: UUID, code: Secret | None, credential: Mapping[str, Any] | None
    ) -> list[str]:
        """Confirm a factor with its first proof; it counts from now on.

        The first factor ends all other logins, which had none, and returns the recovery codes to show once. Raises
        NotFound, Invalid.
        """
        principal, login = caller.principal, _login_of(caller)
        factor = await self._pending(principal, factor_id)
        is_first = not await self._check.find_confirmed(principal.id)
        if factor.kind is FactorKind.TOTP:
            await self._confirm_totp(factor, code)
        else:
            await self._confirm_webauthn(factor, credential)
        record_change(None, factor)
        if not is_first:
            return []
        await self._logins.end_all(principal.id, but=login.id)
        return await self._new_codes(principal.id)

    async def new_recovery_codes(self, caller: Caller, proof: FactorProof, address: str) -> list[str]:
        """Return new recovery codes to show once; older ones become invalid. Raises as `enrol`."""
        await self._require_same_person(caller, proof, address)
        if not await self._check.find_confirmed(caller.principal.id):
            raise Invalid("you have no second factor; recovery codes are created with the first one")
        record_change(None, {"changed": "recovery codes"})
        return await self._new_codes(caller.principal.id)

    async def remove(self, caller: Caller, factor_id: UUID, proof: FactorProof, address: str) -> None:
        """Remove a factor; the last one takes its recovery codes with it. Raises NotFound, Invalid, and as `enrol`."""
        principal = caller.principal
        confirmed = await self._check.find_confirmed(principal.id)
        factor = next((second_factor for second_factor in confirmed if second_factor.id == factor_id), None)
        if factor is None:
            raise NotFound(f"you have no second factor {factor_id}")
        if len(confirmed) == 1 and await self._required.is_required(principal.org_id):
            raise Invalid("your organisation requires a second factor; add another one first")
        await self._require_same_person(caller, proof, address)
        await self._store.remove(factor_id)
        if len(confirmed) == 1:
            await self._store.clear(principal.id)
            self._required.forget(principal.id)
        record_change(factor, None)

    async def reset(self, principal: Principal, key: str) -> None:
        """Remove all factors of a user who lost them, as an administrator, and end their logins. Raises Denied,
        NotFound."""
        if not principal.is_admin or principal.kind is not PrincipalKind.USER:
            raise Denied("only administrators can reset the second factors of others")
        account = await self._principals.by_subject_or_email(principal.org_id, PrincipalKind.USER, key)
        if account is None:
            raise NotFound(f"there is no user {key!r}")
        if account.principal.id == principal.id:
            raise Denied("you remove your own second factors with your password: DELETE /users/self/second-factors/…")
        await self.clear(account.principal)

    async def clear(self, user: Principal) -> None:
        """Remove all factors of a user and end their logins. The caller has checked access."""
        removed = await self._store.clear(user.id)
        await self._logins.end_all(user.id)
        record_change({"email": user.email, "second_factors": removed}, {"email": user.email, "second_factors": 0})

    async def _require_same_person(self, caller: Caller, proof: FactorProof, address: str) -> None:
        """Check the proof. Raises Denied, Unauthenticated, TooMany."""
        login, principal = _login_of(caller), caller.principal
        if caller.must_enrol and self._now() - login.created_at < JUST_LOGGED_IN:
            return
        if proof.answer is not None and proof.answer.kind is not FactorKind.WEBAUTHN:
            await self._check.require(principal.id, proof.answer)
        elif proof.password is not None:
            await self._accounts.require_password(principal, proof.password, address)
        else:
            raise Denied("this needs your password again (current_password), or a code of a second factor (code)")

    async def _pending(self, principal: Principal, factor_id: UUID) -> SecondFactor:
        for factor in await self._store.of(principal.id):
            if factor.id == factor_id and factor.confirmed_at is None:
                if self._now() - factor.created_at < ENROLMENT_LIFE:
                    return factor
                raise Invalid("this was not confirmed in time; start again")
        raise NotFound(f"you have no second factor {factor_id} that is waiting for confirmation")

    async def _confirm_totp(self, factor: SecondFactor, code: Secret | None) -> None:
        step = totp.step_of(factor.material.decode(), code.reveal() if code else "", self._now())
        if step is None or not await self._store.use(factor.id, step, self._now()):
            raise Invalid(
                "code: does not match the code of the authenticator app; check the clock of its device", field="code"
            )
        await self._store.confirm(factor.id, self._now())

    async def _confirm_webauthn(self, factor: SecondFactor, credential: Mapping[str, Any] | None) -> None:
        if credential is None:
            raise Invalid("credential: is required", field="credential")
        key, counter = await self._authenticators.verify_registration(
            credential, challenge_of(factor.material.decode())
        )
        if not await self._store.remove(factor.id):  # another request used this challenge first
            raise NotFound(f"you have no second factor {factor.id} that is waiting for confirmation")
        await self._store.add(replace(factor, material=key.dump(), counter=counter, confirmed_at=self._now()))

    async def _new_codes(self, user_id: UUID) -> list[str]:
        await self._store.clear(user_id, FactorKind.RECOVERY)
        codes = recovery_codes.new_codes()
        for code in codes:
            digest, now = recovery_codes.digest_of(code), self._now()
            await self._store.add(
                SecondFactor(uuid4(), user_id, FactorKind.RECOVERY, "recovery code", digest, now, confirmed_at=now)
            )
        return codes


def _login_of(caller: Caller) -> Login:
    """Return the login. API keys and users of an identity provider have no second factors here. Raises Denied,
    Unauthenticated."""
    if caller.login is None:
        raise Unauthenticated("second factors can only be changed by a logged-in user, not with an API key")
    if caller.login.method not in PASSWORD_METHODS:
        raise Denied("you log in at your identity provider, which manages second factors itself")
    return caller.login


def _checked_name(name: str) -> str:
    if not 1 <= len(name) <= 255 or any(ord(character) < 32 for character in name):
        raise Invalid("name: must have 1 to 255 characters and no control characters", field="name")
    return name
