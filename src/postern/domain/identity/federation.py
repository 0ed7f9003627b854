"""Federation: tokens that an external issuer signs for its programs, such as the jobs of a CI system, as logins here.

A rule trusts one issuer, for tokens with one audience and certain claims, and names the service account that they act
as. Patterns of claims are compared character by character; `*` matches any characters within one part of the value:
everything between two of `/` and `:`. So `repo:acme/*:ref:refs/heads/main` cannot match another owner or branch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

ALGORITHMS = ("RS256", "ES256")
DEFAULT_SECONDS, MIN_SECONDS, MAX_SECONDS = 900, 60, 3600  # of a login
WILDCARD = "*"
_MAX_VALUE = 1_000  # characters of a claim that is compared
_MAX_SHOWN = 200  # characters of a claim that is recorded
_SEPARATORS = re.compile(r"([/:])")
# Claims that say which program ran, beside those that a rule names: GitHub, GitLab, Kubernetes.
_RECORDED = (
    *("sub", "repository", "ref", "sha", "workflow", "run_id", "run_attempt", "actor", "event_name", "environment"),
    *("project_path", "pipeline_id", "pipeline_source", "job_id", "user_login"),
    *("kubernetes.io/namespace", "kubernetes.io/serviceaccount/name", "kubernetes.io/pod/name"),
)
_RUNS = ("run_id", "job_id", "kubernetes.io/pod/name")  # the one run of a pipeline, a job or a pod
# Claims with the event that started a pipeline, and their values for changes that are only proposed: the author of
# such a change chooses what runs, with the same repository in the claims.
PROPOSALS: Mapping[str, frozenset[str]] = {
    "event_name": frozenset({"pull_request", "pull_request_target"}),
    "pipeline_source": frozenset({"merge_request_event", "external_pull_request_event"}),
}

Claims = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FederationRule:
    """A rule. `claims` has the accepted patterns of each claim; all claims must match.

    `service_account` is the subject of the account with the identifier `account_id`. `jwks` are the issuer's keys
    where the gateway cannot fetch them; None: they are fetched. `allow_admin`: the account can be an administrator.
    `allow_reuse`: one token can log in more than once.
    """

    id: UUID
    org_id: UUID
    name: str
    account_id: UUID | None = None
    service_account: str = ""
    issuer_url: str = ""
    audience: str = ""
    claims: Mapping[str, Sequence[str]] = field(default_factory=dict)
    algorithms: tuple[str, ...] = ALGORITHMS
    jwks: Mapping[str, Any] | None = None
    login_duration_seconds: int = DEFAULT_SECONDS
    allow_admin: bool = False
    allow_reuse: bool = False
    description: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 1
    managed_by: str | None = None


@dataclass(frozen=True, slots=True)
class FederatedLogin:
    """What a login knows of the token that it came from: the rule, and the recorded claims.

    `allow_admin` is the rule's, as it was at the login.
    """

    rule_id: UUID
    rule: str
    claims: Mapping[str, str] = field(default_factory=dict)
    allow_admin: bool = False

    @property
    def subject(self) -> str:
        return self.claims.get("sub", "")

    @property
    def summary(self) -> dict[str, str]:
        """Return which program it is, for the audit log and the metadata of sessions."""
        run = next((self.claims[name] for name in _RUNS if name in self.claims), "")
        values = {"federation_rule": self.rule, "federation_subject": self.subject, "federation_run": run}
        return {name: value for name, value in values.items() if value}


def find_mismatches(rule: FederationRule, claims: Claims) -> list[str]:
    """Return the names of the claims that a rule does not accept; empty if it accepts the token.

    Tokens of pull and merge requests are accepted only by a rule that names the claim of PROPOSALS.
    """
    mismatches = [
        name for name, patterns in rule.claims.items() if not _is_accepted(find_claim(claims, name), patterns)
    ]
    proposed = [name for name, values in PROPOSALS.items() if find_claim(claims, name) in values]
    return sorted({*mismatches, *(name for name in proposed if name not in rule.claims)})


def recorded_claims(rule: FederationRule, claims: Claims) -> dict[str, str]:
    """Return the claims that say which program it is, and those that the rule names."""
    values = {name: find_claim(claims, name) for name in (*_RECORDED, *rule.claims)}
    return {name: _printable(value)[:_MAX_SHOWN] for name, value in values.items() if value}


def find_claim(claims: Claims, name: str) -> str | None:
    """Return a claim as text, by its whole name or by its path with `/`, as in `kubernetes.io/namespace`. None where
    there is none, or it is a list or an object."""
    value: Any = claims
    for part in (name,) if name in claims else name.split("/"):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) < 10**18 else None
    return value if isinstance(value, str) else None


def matches(pattern: str, value: str) -> bool:
    """Return whether a claim has a value that the pattern accepts. Linear in the length of both."""
    if WILDCARD not in pattern:
        return pattern == value
    if len(value) > _MAX_VALUE or not value.isascii() or not value.isprintable():
        return False
    patterns, parts = _SEPARATORS.split(pattern), _SEPARATORS.split(value)
    return len(patterns) == len(parts) and all(map(_part_matches, patterns, parts))


def _is_accepted(value: str | None, patterns: Sequence[str]) -> bool:
    return value is not None and any(matches(pattern, value) for pattern in patterns)


def _part_matches(pattern: str, text: str) -> bool:
    first, *rest = pattern.split(WILDCARD)
    if not rest:
        return pattern == text
    *middle, last = rest
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    position, end = len(first), len(text) - len(last)
    for piece in middle:  # the leftmost place of each piece leaves most room for the next
        at = text.find(piece, position, end)
        if at < 0:
            return False
        position = at + len(piece)
    return True


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
