"""`postern admin review-rules`, and what `postern access` says of reviews, against the real API over HTTP."""

from __future__ import annotations

import pytest
from tests.support.served import ANN, Served

RULES = ("admin", "review-rules")


@pytest.fixture
def root(gate: Served) -> Served:
    gate.log_in()
    gate.run(gate.world.add_connection("shop", connection_tags={"stage": "prod"}))
    return gate


def test_a_rule_is_for_both_ways_in_unless_it_says_otherwise(root: Served) -> None:
    made = root.json(*RULES, "create", "pairs", "--connection", "shop", "--reviewers", "leads")
    assert (made["access_type"], made["min_approvals"], made["access_max_duration"]) == ("jit_command", 1, None)


def test_what_is_wrong_is_said(root: Served) -> None:
    unknown = root.cli(*RULES, "create", "pairs", "--reviewers", "leads", "--connection", "shpo")
    assert (unknown.exit_code, "there is no connection 'shpo'" in unknown.stderr) == (1, True)
    nobody = root.cli(*RULES, "create", "pairs", "--connection", "shop")
    assert (nobody.exit_code, "reviewers_groups: must have 1 to 100" in nobody.stderr) == (1, True)
    assert root.cli(*RULES, "create", "pairs", "--for", "everything").exit_code == 2


def test_access_says_who_must_agree(root: Served) -> None:
    free = root.ok("access", "shop", "--user", ANN).stdout
    assert free.count("no approval is required") == 2
    options = ("--for", "jit", "--tag", "stage=prod", "--reviewers", "leads", "--approvals", "2", "--max-duration")
    root.ok(*RULES, "create", "pairs", *options, "600")
    shown = root.ok("access", "shop", "--user", ANN).stdout
    assert "2 members of the group 'leads' must approve (rule 'pairs'); access lasts at most 10 minutes" in shown
    assert shown.count("no approval is required") == 1
    root.log_in(ANN)
    assert root.json("access", "shop")["reviews"][0]["demands"][0]["rule"] == "pairs"
    refused = root.cli(*RULES, "list")
    assert refused.exit_code == 4
