"""Which tokens a federation rule accepts, by their claims."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from postern.domain.identity.federation import (
    FederatedLogin,
    FederationRule,
    find_claim,
    find_mismatches,
    matches,
    recorded_claims,
)

RULE = FederationRule(
    uuid4(), uuid4(), "shop", claims={"repository": ("acme/shop",), "ref": ("refs/heads/main", "refs/tags/v*")}
)
# As GitHub's documentation shows them.
GITHUB: dict[str, Any] = {
    "sub": "repo:acme/shop:ref:refs/heads/main",
    "repository": "acme/shop",
    "ref": "refs/heads/main",
    "event_name": "push",
    "run_id": "1234",
    "actor": "ann",
    "environment": "production",
}


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("acme/shop", "acme/shop", True),
        ("acme/shop", "acme/shop2", False),
        ("acme/shop", "ACME/shop", False),
        ("acme/*", "acme/shop", True),
        ("acme/*", "acme/shop/evil", False),
        ("acme/*", "acme-evil/shop", False),
        ("acme/*", "evil/acme/shop", False),
        ("acme/*", "acme/", True),
        ("*/shop", "acme/shop", True),
        ("*/shop", "evil/acme/shop", False),
        ("refs/heads/release-*", "refs/heads/release-1.2", True),
        ("refs/heads/release-*", "refs/heads/release-1/evil", False),
        ("repo:acme/*:ref:refs/heads/main", "repo:acme/shop:ref:refs/heads/main", True),
        ("repo:acme/*:ref:refs/heads/main", "repo:acme/x:pull_request:ref:refs/heads/main", False),
        ("repo:acme/shop:*", "repo:acme/shop:pull_request", True),
        ("repo:acme/shop:*", "repo:acme/shop:ref:refs/heads/main", False),
        ("system:serviceaccount:ci:*", "system:serviceaccount:ci:deploy", True),
        ("system:serviceaccount:ci:*", "system:serviceaccount:ci-evil:deploy", False),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("a*b*c", "a-c-b-c", True),
        ("a*b*c", "a-c-c", False),
        ("ab*bc", "abc", False),
        ("acme/*", "acme/sh\u043ep", False),  # a Cyrillic o
        ("acme/shop", "acme/sh\u043ep", False),
        ("acme/shop", "acme\uff0fshop", False),  # a full-width slash
        ("acme/*", "acme/shop\n", False),
        ("acme/*", "acme/shop\0", False),
        ("acme/*", "acme/" + "x" * 2_000, False),
        ("acme.shop", "acmeXshop", False),
        ("acme/[a-z]*", "acme/shop", False),
        ("acme/?hop", "acme/shop", False),
    ],
)
def test_pattern_matches_within_one_part_of_a_value(pattern: str, value: str, expected: bool) -> None:
    assert matches(pattern, value) is expected


def test_many_wildcards_take_no_longer_than_their_text() -> None:
    assert not matches("a*" * 9 + "b", "a" * 1_000)


@pytest.mark.parametrize(
    ("claims", "mismatches"),
    [
        ({}, []),
        ({"ref": "refs/tags/v1.2"}, []),
        ({"ref": "refs/heads/evil"}, ["ref"]),
        ({"repository": "mallory/shop"}, ["repository"]),
        ({"repository": None, "ref": 7}, ["ref", "repository"]),
        ({"repository": ["acme/shop"]}, ["repository"]),
        ({"repository": {"acme/shop": True}}, ["repository"]),
        ({"event_name": "pull_request"}, ["event_name"]),
        ({"event_name": "pull_request_target"}, ["event_name"]),
        ({"event_name": "workflow_dispatch"}, []),
        ({"pipeline_source": "merge_request_event"}, ["pipeline_source"]),
        ({"pipeline_source": "push"}, []),
    ],
)
def test_rule_names_the_claims_that_it_does_not_accept(claims: dict[str, Any], mismatches: list[str]) -> None:
    assert find_mismatches(RULE, GITHUB | claims) == mismatches


def test_pull_requests_are_accepted_by_a_rule_that_names_the_event() -> None:
    rule = replace(RULE, claims={**RULE.claims, "event_name": ("pull_request",)})
    assert find_mismatches(rule, GITHUB | {"event_name": "pull_request"}) == []
    assert find_mismatches(rule, GITHUB | {"event_name": "pull_request_target"}) == ["event_name"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sub", "system:serviceaccount:ci:deploy"),
        ("kubernetes.io/namespace", "ci"),
        ("kubernetes.io/serviceaccount/name", "deploy"),
        ("kubernetes.io/serviceaccount", None),
        ("kubernetes.io/namespace/x", None),
        ("https://example.com/team", "data"),
        ("protected", "true"),
        ("number", "7"),
        ("huge", None),
        ("half", None),
        ("missing", None),
    ],
)
def test_claim_is_found_by_name_or_path(name: str, expected: str | None) -> None:
    claims = {
        "sub": "system:serviceaccount:ci:deploy",
        "kubernetes.io": {"namespace": "ci", "serviceaccount": {"name": "deploy", "uid": "1"}},
        "https://example.com/team": "data",
        "protected": True,
        "number": 7,
        "huge": 10**5_000,
        "half": 0.5,
    }
    assert find_claim(claims, name) == expected


def test_recorded_claims_say_which_program_ran_and_are_short() -> None:
    rule = replace(RULE, claims={**RULE.claims, "custom": ("x",)})
    claims = recorded_claims(rule, GITHUB | {"custom": "x", "actor": "a\nb" + "c" * 1_000, "other": "y", "sha": ["z"]})
    assert claims["repository"] == "acme/shop"
    assert claims["custom"] == "x"
    assert claims["actor"].startswith("a\ufffdb")
    assert len(claims["actor"]) == 200
    assert not {"other", "sha"} & set(claims)
    summary = FederatedLogin(RULE.id, "shop", claims).summary
    assert summary == {
        "federation_rule": "shop",
        "federation_subject": "repo:acme/shop:ref:refs/heads/main",
        "federation_run": "1234",
    }
