"""Federation rules: which programs log in with the tokens of an external issuer, and as which service account."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from postern.domain.addresses import AllowedNetworks, check_saved
from postern.domain.durations import duration_text
from postern.domain.identity.federation import (
    ALGORITHMS,
    MAX_SECONDS,
    MIN_SECONDS,
    WILDCARD,
    FederationRule,
)
from postern.domain.identity.principal import Principal, PrincipalKind
from postern.errors import Invalid
from postern.services.identity.logins.logins import Logins
from postern.services.identity.users import require_admin, require_person
from postern.services.named_resources import ResourceService
from postern.services.server.server_addresses import checked_url, is_loopback
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.identity_ports import FederationRuleStore, PrincipalStore

MAX_CLAIMS, MAX_PATTERNS, MAX_PATTERN, MAX_WILDCARDS = 20, 50, 500, 10
MAX_JWKS = 64 * 1024  # characters
_CLAIM = re.compile(r"[!-~]{1,200}")
_AUDIENCE = re.compile(r"[!-~]{1,500}")
_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})  # of a JSON Web Key

# Issuers that sign tokens for everybody, with the claims that say whose program it is. A rule for one of them must name
# the owner: other claims, such as the branch, have the same values for strangers.
_OWNERS: Mapping[str, Sequence[str]] = {
    "https://token.actions.githubusercontent.com": (
        *("repository", "repository_id", "repository_owner", "repository_owner_id", "sub"),
    ),
    "https://gitlab.com": ("project_path", "project_id", "namespace_path", "namespace_id", "sub"),
    "https://agent.buildkite.com": ("organization_slug", "organization_id"),
    "https://app.terraform.io": (
        *("terraform_organization_id", "terraform_organization_name"),
        *("terraform_project_id", "terraform_workspace_id"),
    ),
    "https://accounts.google.com": ("sub", "email"),
}
# What a `sub` with an owner in it begins with. Repositories choose the rest of the format themselves.
_SUBJECT_OWNERS = ("repo:", "project_path:")
# Audiences of other services: a token for one of them was made to be shown there, and that service could use it here.
_FOREIGN_AUDIENCES = re.compile(
    r"https://github\.com/.*|https://gitlab\.com|sts\.amazonaws\.com|api://AzureADTokenExchange|"
    r"https://kubernetes\.default\.svc(\..*)?|(https:)?//iam\.googleapis\.com/.*",
    re.IGNORECASE,
)


class FederationRules(ResourceService[FederationRule]):
    """Requests give the fields of a rule, with the subject of the account in `service_account`.

    A rule that is changed or deleted ends the logins that it allowed, with their sessions.
    """

    noun = "federation rule"

    def __init__(
        self,
        store: FederationRuleStore,
        principals: PrincipalStore,
        logins: Logins,
        networks: AllowedNetworks,
        signals: Signals,
        now: Clock,
    ) -> None:
        super().__init__(store, signals, now)
        self._principals = principals
        self._logins = logins
        self._networks = networks

    def blank(self, key: UUID, org_id: UUID) -> FederationRule:
        return FederationRule(key, org_id, "")

    def require_admin(self, principal: Principal) -> None:
        """A rule is access for programs, which would outlive the API key that created it."""
        self.require_remover(principal)
        require_person(principal, "create or change federation rules")

    def require_remover(self, principal: Principal) -> None:
        require_admin(principal, "create, change or delete federation rules")

    async def resolve(self, current: FederationRule, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        resolved = dict(fields)
        if "claims" in fields:
            resolved["claims"] = {name: tuple(patterns) for name, patterns in sorted(fields["claims"].items())}
        if "algorithms" in fields:
            resolved["algorithms"] = tuple(fields["algorithms"])
        if "service_account" in fields:
            resolved["account_id"] = await self._account_id(current.org_id, fields["service_account"])
        return resolved

    async def _account_id(self, org_id: UUID, subject: str) -> UUID:
        account = await self._principals.by_subject(org_id, "", subject)
        if account is None or account.principal.kind is not PrincipalKind.SERVICE_ACCOUNT:
            raise Invalid(f"service_account: there is no service account {subject!r}", field="service_account")
        return account.id

    async def check(self, resource: FederationRule) -> None:
        self._check_issuer(resource)
        _check_audience(resource.audience)
        _check_claims(resource.claims)
        _check_owner(resource)
        if not resource.algorithms or set(resource.algorithms) - set(ALGORITHMS):
            raise Invalid(f"algorithms: must be of {', '.join(ALGORITHMS)}", field="algorithms")
        if not MIN_SECONDS <= resource.login_duration_seconds <= MAX_SECONDS:
            raise Invalid(
                f"login_duration_seconds: must be {MIN_SECONDS} to {MAX_SECONDS} ({duration_text(MAX_SECONDS)})",
                field="login_duration_seconds",
            )
        if resource.jwks is not None:
            _check_jwks(resource.jwks)

    def _check_issuer(self, rule: FederationRule) -> None:
        url = checked_url(rule.issuer_url, "issuer_url", "issuer")
        if rule.jwks is None:
            host = urlsplit(url).hostname or ""
            networks = self._networks
            check_saved(host, networks.networks, networks.setting, "issuer_url", loopback=is_loopback(host))

    def audit_view(self, resource: FederationRule) -> dict[str, object]:
        """Return the audited fields. Claims are texts: one called `environment` would be redacted as a secret."""
        names = (
            *("id", "name", "service_account", "issuer_url", "audience", "algorithms", "login_duration_seconds"),
            *("allow_admin", "allow_reuse", "description"),
        )
        claims = [f"{name}={pattern}" for name, patterns in resource.claims.items() for pattern in patterns]
        return {name: getattr(resource, name) for name in names} | {"claims": claims, "jwks": resource.jwks is not None}

    async def announce(self, before: FederationRule | None, after: FederationRule | None) -> None:
        if before is not None and (after is None or _conditions(before) != _conditions(after)):
            await self._logins.end_of_rule(before.id)


def _conditions(rule: FederationRule) -> FederationRule:
    """Return the rule without what does not matter to logins."""
    return replace(rule, name="", description="", created_at=None, updated_at=None, version=0)


def _check_audience(audience: str) -> None:
    if not _AUDIENCE.fullmatch(audience):
        raise Invalid(
            "audience: must have 1 to 500 printable ASCII characters; use this gateway's own address, such as "
            "https://gateway.example.com:7480",
            field="audience",
        )
    if _FOREIGN_AUDIENCES.fullmatch(audience):
        raise Invalid(
            f"audience: {audience!r} is the audience of another service, which could log in here with the tokens that "
            "it receives; use this gateway's own address",
            field="audience",
        )


def _check_claims(claims: Mapping[str, Sequence[str]]) -> None:
    if not 1 <= len(claims) <= MAX_CLAIMS:
        raise Invalid(
            f"claims: 1 to {MAX_CLAIMS} are required; without one, every program of the issuer could log in",
            field="claims",
        )
    for name, patterns in claims.items():
        if not _CLAIM.fullmatch(name):
            raise Invalid("claims: names must have 1 to 200 printable ASCII characters, no blanks", field="claims")
        if not 1 <= len(patterns) <= MAX_PATTERNS:
            raise Invalid(f"claims: {name}: 1 to {MAX_PATTERNS} values are required", field="claims")
        for pattern in patterns:
            _check_pattern(name, pattern)


def _check_pattern(name: str, pattern: str) -> None:
    if not 1 <= len(pattern) <= MAX_PATTERN or not pattern.isascii() or not pattern.isprintable():
        raise Invalid(f"claims: {name}: values must have 1 to {MAX_PATTERN} printable ASCII characters", field="claims")
    if "**" in pattern or pattern.count(WILDCARD) > MAX_WILDCARDS:
        raise Invalid(
            f"claims: {name}: {pattern!r}: at most {MAX_WILDCARDS} '*', and no two together; '*' matches within one "
            "part between '/' and ':'",
            field="claims",
        )
    if not set(pattern) - set("*/:"):
        raise Invalid(f"claims: {name}: {pattern!r} has wildcards alone; name a part of the value", field="claims")


def _check_owner(rule: FederationRule) -> None:
    """Check that a rule for an issuer that everybody can use names whose program it is."""
    owners = _OWNERS.get(rule.issuer_url.rstrip("/").lower())
    if owners is None or any(
        all(_names_owner(name, pattern) for pattern in rule.claims[name]) for name in owners if name in rule.claims
    ):
        return
    raise Invalid(
        f"claims: {rule.issuer_url} signs tokens for everybody, so a stranger's program could log in; name the owner "
        f"without a wildcard in one of {', '.join(owners)}",
        field="claims",
    )


def _names_owner(claim: str, pattern: str) -> bool:
    owner, slash, _ = pattern.partition("/")
    if claim == "sub" and any(pattern.startswith(start) for start in _SUBJECT_OWNERS):
        owner = owner.partition(":")[2]
        return bool(slash and owner) and WILDCARD not in owner and ":" not in owner
    if claim == "sub":
        return pattern.isdigit()  # Google's are numbers
    return bool(owner) and WILDCARD not in owner


def _check_jwks(jwks: Mapping[str, Any]) -> None:
    keys = jwks.get("keys")
    if not isinstance(keys, list) or not keys or not all(isinstance(key, dict) for key in keys):
        raise Invalid("jwks: must be a key set, an object with the list 'keys'", field="jwks")
    if len(json.dumps(jwks)) > MAX_JWKS:
        raise Invalid(f"jwks: at most {MAX_JWKS} characters", field="jwks")
    if any(_PRIVATE & set(key) for key in keys):
        raise Invalid(
            "jwks: has a private or secret key; give the public keys alone, and replace that one", field="jwks"
        )
