"""Login of programs by the token of an external issuer, such as a CI system (token exchange, RFC 8693).

The token is verified by the keys of an issuer that a federation rule names, and its claims by the rule. The program
then has a short login as the rule's service account.
"""

from __future__ import annotations

import hashlib
import json
import logging
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

from postern.domain.identity.federation import (
    PROPOSALS,
    FederatedLogin,
    FederationRule,
    find_mismatches,
    recorded_claims,
)
from postern.domain.identity.login import LoginMethod, TokenPurpose
from postern.domain.identity.principal import Account, PrincipalKind
from postern.domain.secret import Secret
from postern.errors import Conflict, Denied, TooMany, Unauthenticated, Unavailable
from postern.services.identity.logins.login_throttle import neighbourhood
from postern.services.identity.logins.logins import ClientFacts, Logins, OpenedLogin, require_active
from postern.services.identity.logins.one_time_tokens import OneTimeTokens
from postern.services.identity.logins.openid_port import OpenId
from postern.services.identity.logins.passwords import Throttle
from postern.services.server.audit_context import record_change
from postern.store.ports.common_ports import Clock
from postern.store.ports.identity_ports import FederationRuleStore, PrincipalStore
from postern.store.ports.server_ports import OrganisationStore

log = logging.getLogger(__name__)

MAX_TOKEN = 15 * 1024  # characters
MAX_TOKEN_LIFE = timedelta(hours=24)
_SKEW = timedelta(seconds=61)  # until a token is surely expired by this clock
_WINDOW = timedelta(minutes=15)
_FAILURES = 50  # of one network within the window

Accepted = tuple[FederationRule, Mapping[str, Any]]


class TokenExchange:
    """Exchanges tokens. `openid` is missing where this server has no client for providers."""

    def __init__(
        self,
        *,
        openid: OpenId | None,
        rules: FederationRuleStore,
        organisations: OrganisationStore,
        principals: PrincipalStore,
        logins: Logins,
        one_time_tokens: OneTimeTokens,
        now: Clock,
    ) -> None:
        self._openid = openid
        self._rules = rules
        self._organisations = organisations
        self._principals = principals
        self._logins = logins
        self._one_time_tokens = one_time_tokens
        self._now = now
        self._failures = Throttle(now, failures=_FAILURES, window=_WINDOW)

    async def exchange(
        self, token: Secret, client: ClientFacts, *, organisation: str | None = None, rule: str | None = None
    ) -> OpenedLogin:
        """Return a login for a token. `rule` chooses between several that accept it.

        Raises Unauthenticated for a token that no rule accepts, Denied where its account must not be used this way,
        TooMany, Unavailable.
        """
        with self._attempt(client.source):
            candidates = await self._candidates(token, organisation, rule)
            accepted = await self._accept(candidates, token)
            return await self._log_in(accepted, token, client)

    @contextmanager
    def _attempt(self, address: str) -> Iterator[None]:
        """Count an attempt around the work, as a failure until it succeeds. Raises TooMany."""
        network = neighbourhood(address)
        self._failures.check(network)
        self._failures.fail(network)
        try:
            yield
        except (TooMany, Unavailable):
            self._failures.undo(network)
            raise
        self._failures.undo(network)

    async def _candidates(self, token: Secret, organisation: str | None, name: str | None) -> list[FederationRule]:
        """Return the rules for the issuer and audience that the token claims. Raises Unauthenticated."""
        claims = claimed_by(token)
        org_id = await self._org_id(organisation)
        rules = [] if org_id is None else await self._rules.by_issuer(org_id, _text(claims.get("iss")))
        rules = [rule for rule in rules if name in (None, rule.name)]
        if not rules:
            raise Unauthenticated(
                "no federation rule trusts the issuer of this token; an administrator adds one with `postern admin "
                "federation-rules create`"
            )
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        fitting = [rule for rule in rules if rule.audience in audiences]
        if not fitting:
            raise Unauthenticated(
                "the token is for a different audience than the federation rules of its issuer require; request one "
                "for this gateway's address"
            )
        return fitting

    async def _accept(self, rules: Sequence[FederationRule], token: Secret) -> Accepted:
        """Return the one rule that accepts the token, and its verified claims. Raises Unauthenticated, Unavailable."""
        accepted: list[Accepted] = []
        problem = Unauthenticated("no federation rule accepts this token")
        for rule in rules:
            try:
                claims = await self._client().claims_of(rule, token)
            except Unauthenticated as error:
                problem = error
                continue
            mismatches = find_mismatches(rule, claims)
            if mismatches:
                log.warning(
                    "federation rule %r rejected a token: subject=%s claims=%s",
                    rule.name,
                    _text(claims.get("sub"))[:200].encode("unicode_escape").decode(),
                    ", ".join(mismatches),
                )
                problem = _mismatch(mismatches)
            else:
                accepted.append((rule, claims))
        if len(accepted) > 1:
            names = ", ".join(repr(rule.name) for rule, _ in accepted)
            raise Unauthenticated(f"several federation rules accept this token: {names}; name one of them as `rule`")
        if not accepted:
            raise problem
        return accepted[0]

    async def _log_in(self, accepted: Accepted, token: Secret, client: ClientFacts) -> OpenedLogin:
        rule, claims = accepted
        account = await self._account(rule)
        now = self._now()
        left = timedelta(seconds=claims["exp"] - now.timestamp())
        if left > MAX_TOKEN_LIFE:
            raise Unauthenticated("the token is valid for more than 24 hours; request one with a shorter life")
        if not rule.allow_reuse:
            await self._use_up(rule, token, max(left, timedelta(0)) + _SKEW)
        federation = FederatedLogin(rule.id, rule.name, recorded_claims(rule, claims), rule.allow_admin)
        opened = await self._logins.open(
            account, LoginMethod.FEDERATION, client, federation=federation, life=_life(rule, claims, left)
        )
        await self._require_unchanged(rule, opened)
        record_change(None, _audit_fields(account, opened))
        return opened

    async def _account(self, rule: FederationRule) -> Account:
        """Return the account that the program acts as. Raises Unauthenticated, Denied."""
        account = None if rule.account_id is None else await self._principals.get(rule.org_id, rule.account_id)
        if account is None or account.principal.kind is not PrincipalKind.SERVICE_ACCOUNT:
            raise Unauthenticated("the service account of this federation rule was deleted; ask an administrator")
        require_active(account.principal)
        if account.principal.is_admin and not rule.allow_admin:
            raise Denied(
                f"the service account {account.principal.subject!r} is an administrator, and the federation rule "
                f"{rule.name!r} does not allow that; ask an administrator"
            )
        return account

    async def _use_up(self, rule: FederationRule, token: Secret, life: timedelta) -> None:
        """Record that the token was used, by what is signed of it: a signature can have several spellings. Raises
        Unauthenticated when it was used before."""
        signed = token.reveal().rpartition(".")[0]
        secret = Secret(f"federated token {rule.org_id} {hashlib.sha256(signed.encode()).hexdigest()}")
        try:
            await self._one_time_tokens.issue(TokenPurpose.FEDERATION, {}, life, secret=secret)
        except Conflict:
            raise Unauthenticated(
                "this token has already been used to log in; request a new one for each login, or let the federation "
                "rule allow reuse"
            ) from None

    async def _require_unchanged(self, rule: FederationRule, opened: OpenedLogin) -> None:
        """End the login if its rule was changed while it was opened: the change ended only the logins that it saw.
        Raises Unauthenticated."""
        current = await self._rules.get(rule.org_id, str(rule.id))
        if current is None or current.version != rule.version:
            await self._logins.end_of_rule(rule.id)
            raise Unauthenticated("the federation rule was changed meanwhile; log in again")

    async def _org_id(self, name: str | None) -> UUID | None:
        organisation = await self._organisations.default() if name is None else await self._organisations.by_name(name)
        return organisation.id if organisation else None

    def _client(self) -> OpenId:
        if self._openid is None:
            raise Unavailable("this process cannot verify tokens of other issuers; ask the operator of the gateway")
        return self._openid


def claimed_by(token: Secret) -> Mapping[str, Any]:
    """Return the claims of a token that is not verified yet: they choose the rules and keys to verify it by. Raises
    Unauthenticated when it is not a signed token."""
    text = token.reveal()
    if len(text) > MAX_TOKEN:
        raise Unauthenticated(f"the token is too long; at most {MAX_TOKEN} characters")
    try:
        _, part, _ = text.split(".")
        claims: Any = json.loads(urlsafe_b64decode(part.encode("ascii") + b"=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise Unauthenticated("this is not a signed token (JWT) of an issuer such as a CI system; check what was sent")
    return claims


def claimed_subject(token: Secret) -> str:
    """Return the program that a token names, not verified; empty where it cannot be read."""
    try:
        return _text(claimed_by(token).get("sub"))
    except Unauthenticated:
        return ""


def _life(rule: FederationRule, claims: Mapping[str, Any], left: timedelta) -> timedelta:
    """Return how long the login lasts: no longer than the token, if the issuer's tokens last as long as the rule's
    logins. Some issuers' tokens are for one login: GitHub's expire after five minutes."""
    life = timedelta(seconds=rule.login_duration_seconds)
    if timedelta(seconds=claims["exp"] - claims["iat"]) < life:
        return life
    return min(life, max(left, timedelta(seconds=1)))  # a clock that is behind accepts a token that has just expired


def _audit_fields(account: Account, opened: OpenedLogin) -> dict[str, object]:
    """Return the audited fields. Claims are texts: one called `environment` would be redacted as a secret."""
    login, federation = opened.login, opened.login.federation
    assert federation is not None
    return {
        "login_id": login.id,
        "rule": federation.rule,
        "service_account": account.principal.subject,
        "claims": [f"{name}={value}" for name, value in federation.claims.items()],
        "ends_at": login.ends_at,
    }


def _mismatch(names: Sequence[str]) -> Unauthenticated:
    proposal = next((name for name in names if name in PROPOSALS), None)
    hint = f"; a rule accepts tokens of pull and merge requests only if it names {proposal}" if proposal else ""
    return Unauthenticated(
        "the token is valid, but no federation rule accepts its claims; these do not match, or are missing: "
        + ", ".join(names)
        + hint
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
