"""`postern admin runbookrules` against the real API over HTTP."""

from __future__ import annotations

import pytest
from tests.support.served import ANN, Served

RULES = ("admin", "runbookrules")
OPS = "git.example.com/acme/ops"


@pytest.fixture
def root(gate: Served) -> Served:
    gate.log_in()
    gate.run(gate.world.add_connection("shop"))
    return gate


def test_rules_are_made_shown_changed_and_deleted(root: Served) -> None:
    assert "There are no runbook rules yet" in root.ok(*RULES, "list").stderr
    runbooks = ("--runbook", f"https://{OPS}.git//deploy/", "--runbook", f"https://{OPS}", "--runbook", "x:1/a//b//c")
    options = (*runbooks, "--connection", "shop", "--group", "dev", "--description", "night shift")
    made = root.json(*RULES, "create", "deploys", *options)
    assert made["runbooks"] == [
        {"repository": OPS, "name": "deploy/"},
        {"repository": OPS, "name": ""},
        {"repository": "x:1/a//b", "name": "c"},
    ]
    assert (made["connections"], made["user_groups"]) == (["shop"], ["dev"])
    assert root.json(*RULES, "get", "deploys") == made
    shown = root.ok(*RULES, "get", "deploys").stdout
    assert f"{OPS}//deploy/" in shown
    assert "night shift" in shown
    assert root.json(*RULES, "list")["data"] == [made]
    changed = root.json(*RULES, "update", "deploys", "--name", "all", "--no-connections", "--no-groups")
    assert (changed["connections"], changed["user_groups"], changed["runbooks"]) == ([], [], made["runbooks"])
    line = root.ok(*RULES, "list").stdout.splitlines()[0].split("\t")
    assert (line[0], *line[2:4]) == ("all", "all", "everybody")
    narrowed = root.json(*RULES, "update", "all", "--runbook", OPS, "--connection", "shop")
    assert (narrowed["runbooks"], narrowed["connections"]) == ([{"repository": OPS, "name": ""}], ["shop"])
    assert root.cli(*RULES, "delete", "all", stdin="n\n").exit_code == 1
    root.ok(*RULES, "delete", "all", "--yes")
    assert root.cli(*RULES, "get", "all").exit_code == 5


def test_a_rule_that_lost_its_connections_says_so(root: Served) -> None:
    root.ok(*RULES, "create", "deploys", "--runbook", OPS, "--connection", "shop")
    root.ok("connections", "delete", "shop", "--yes")
    assert "none: all were deleted" in root.ok(*RULES, "get", "deploys").stdout
    refused = root.cli(*RULES, "update", "deploys", "--no-connections")
    assert (refused.exit_code, "list some, or delete the rule" in refused.stderr) == (1, True)


def test_what_is_wrong_is_said(root: Served) -> None:
    nothing = root.cli(*RULES, "create", "deploys")
    assert (nothing.exit_code, "runbooks: must be 1 to 100" in nothing.stderr) == (1, True)
    root.log_in(ANN)
    assert root.cli(*RULES, "list").exit_code == 4
