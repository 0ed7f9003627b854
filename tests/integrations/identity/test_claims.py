"""How claims of an identity provider become an identity."""

from __future__ import annotations

from typing import Any

import pytest

from postern.domain.identity.identity import Identity
from postern.errors import Unauthenticated
from postern.integrations.identity.oidc import identity_of, missing


def identity(claims: dict[str, Any], groups_claim: str = "groups") -> Identity:
    return identity_of("https://idp.example", "ann", claims, groups_claim)


@pytest.mark.parametrize(
    ("claims", "name", "groups"),
    [
        ({}, "groups", None),
        ({"groups": []}, "groups", set()),
        ({"groups": None}, "groups", set()),
        ({"groups": ""}, "groups", set()),
        ({"groups": "dba"}, "groups", {"dba"}),
        ({"groups": "dba, ops"}, "groups", {"dba, ops"}),
        ({"groups": ["dba", "ops", "dba", ""]}, "groups", {"dba", "ops"}),
        ({"https://corp.example/claims.groups": ["dba"]}, "https://corp.example/claims.groups", {"dba"}),
        ({"realm_access": {"roles": ["dba"]}}, "realm_access.roles", {"dba"}),
        ({"realm_access.roles": ["ops"], "realm_access": {"roles": ["dba"]}}, "realm_access.roles", {"ops"}),
        ({"realm_access": ["roles"]}, "realm_access.roles", None),
        ({"resource_access": {"postern": {"roles": "dba"}}}, "resource_access.postern.roles", {"dba"}),
        ({"Groups": ["dba"]}, "groups", None),
    ],
)
def test_groups_are_read_from_the_configured_claim(claims: dict[str, Any], name: str, groups: set[str] | None) -> None:
    assert identity(claims, name).groups == (None if groups is None else frozenset(groups))


@pytest.mark.parametrize("given", [7, True, {"admin": True}, ["dba", 7], [["admin"]], ["x"] * 5_001])
def test_groups_claim_of_another_type_is_rejected(given: object) -> None:
    with pytest.raises(Unauthenticated, match="not a text or a list"):
        identity({"groups": given})


def test_distributed_groups_claim_is_rejected() -> None:
    with pytest.raises(Unauthenticated, match="too many groups"):
        identity({"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "https://x.example/"}}})


@pytest.mark.parametrize(
    ("given", "verified"), [(True, True), ("true", True), (False, False), ("false", False), (1, False), (None, False)]
)
def test_email_is_verified_only_if_the_provider_says_so(given: object, verified: bool) -> None:
    assert identity({"email": "a@b", "email_verified": given}).email_verified is verified
    assert not identity({"email": "a@b"}).email_verified


@pytest.mark.parametrize("odd", [7, None, ["x"], {}, "a\0b", "\ud800"])
def test_invalid_text_claim_becomes_empty(odd: object) -> None:
    found = identity({"email": odd, "name": odd, "picture": odd})
    assert (found.email, found.name, found.picture) == ("", "", "")


def test_name_falls_back_to_the_preferred_user_name() -> None:
    assert identity({"preferred_username": "ann"}).name == "ann"
    assert identity({"preferred_username": "ann", "name": "Ann"}).name == "Ann"


def test_missing_claims_are_requested_from_userinfo() -> None:
    whole = {"email": "a@b", "name": "Ann", "groups": []}
    assert not missing(whole, "groups")
    for name in whole:
        assert missing({key: value for key, value in whole.items() if key != name}, "groups")
