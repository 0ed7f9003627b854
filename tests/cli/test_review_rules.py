"""`postern admin reviewrules`, and what `postern access` says of reviews, against the real API over HTTP."""

from __future__ import annotations

import pytest
from tests.support.served import ANN, Served

RULES = ("admin", "reviewrules")


@pytest.fixture
def root(gate: Served) -> Served:
    gate.log_in()
    gate.run(gate.world.add_connection("shop", connection_tags={"stage": "prod"}))
    return gate


def test_rules_are_made_shown_changed_and_deleted(root: Served) -> None:
    assert "There are no review rules yet" in root.ok(*RULES, "list").stderr
    options = ("--for", "jit", "--connection", "shop", "--tag", "stage=prod", "--reviewers", "leads")
    more = ("--reviewers", "sre", "--approvals", "2", "--all-groups", "--force", "boss", "--longest", "600")
    made = root.json(*RULES, "create", "pairs", *options, *more, "--skip", "on-call", "--description", "night shift")
    assert (made["access_type"], made["connection_names"], made["connection_tags"]) == (
        "jit",
        ["shop"],
        {"stage": "prod"},
    )
    assert (made["reviewers_groups"], made["all_groups_must_approve"], made["min_approvals"]) == (
        ["leads", "sre"],
        True,
        2,
    )
    assert (made["force_approval_groups"], made["skip_review_groups"]) == (["boss"], ["on-call"])
    assert made["access_max_duration"] == 600
    assert "night shift" in root.ok(*RULES, "get", "pairs").stdout
    assert root.json(*RULES, "get", "pairs") == made
    assert root.ok(*RULES, "list").stdout.splitlines()[0].startswith("pairs\tjit\t")
    assert root.json(*RULES, "list")["data"] == [made]
    clear = ("--no-connections", "--no-skip", "--no-force", "--no-longest", "--any-group")
    changed = root.json(*RULES, "update", "pairs", "--name", "two", *clear, "--asked", "dba")
    assert (changed["name"], changed["connection_names"], changed["connection_tags"]) == ("two", [], {"stage": "prod"})
    assert changed["skip_review_groups"] == changed["force_approval_groups"] == []
    assert (changed["access_max_duration"], changed["all_groups_must_approve"]) == (None, False)
    assert changed["approval_required_groups"] == ["dba"]
    again = root.json(*RULES, "update", "two", "--no-asked", "--connection", "shop", "--no-tags", "--approvals", "1")
    assert (again["approval_required_groups"], again["connection_tags"], again["min_approvals"]) == ([], {}, 1)
    assert root.cli(*RULES, "delete", "two", stdin="n\n").exit_code == 1
    root.ok(*RULES, "delete", "two", "--yes")
    gone = root.cli(*RULES, "get", "two")
    assert (gone.exit_code, "`postern admin reviewrules list` shows what there is" in gone.stderr) == (5, True)


def test_a_rule_is_for_both_ways_in_unless_it_says_otherwise(root: Served) -> None:
    made = root.json(*RULES, "create", "pairs", "--connection", "shop", "--reviewers", "leads")
    assert (made["access_type"], made["min_approvals"], made["access_max_duration"]) == ("jit_command", 1, None)


def test_what_is_wrong_is_said(root: Served) -> None:
    unknown = root.cli(*RULES, "create", "pairs", "--reviewers", "leads", "--connection", "shpo")
    assert (unknown.exit_code, "there is no connection 'shpo'" in unknown.stderr) == (1, True)
    nobody = root.cli(*RULES, "create", "pairs", "--connection", "shop")
    assert (nobody.exit_code, "reviewers_groups: must be 1 to 100" in nobody.stderr) == (1, True)
    assert root.cli(*RULES, "create", "pairs", "--for", "everything").exit_code == 2


def test_access_says_who_must_agree(root: Served) -> None:
    free = root.ok("access", "shop", "--user", ANN).stdout
    assert free.count("nobody has to agree") == 2
    options = ("--for", "jit", "--tag", "stage=prod", "--reviewers", "leads", "--approvals", "2", "--longest", "600")
    root.ok(*RULES, "create", "pairs", *options)
    shown = root.ok("access", "shop", "--user", ANN).stdout
    assert "2 people of the group 'leads' must agree (rule 'pairs'); access is for 600 seconds at most" in shown
    assert shown.count("nobody has to agree") == 1
    root.log_in(ANN)
    assert root.json("access", "shop")["reviews"][0]["demands"][0]["rule"] == "pairs"
    refused = root.cli(*RULES, "list")
    assert refused.exit_code == 4
