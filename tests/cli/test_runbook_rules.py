"""`postern admin runbook-rules` against the real API over HTTP."""

from __future__ import annotations

import pytest
from tests.support.served import ANN, Served

RULES = ("admin", "runbook-rules")
OPS = "git.example.com/acme/ops"


@pytest.fixture
def root(gate: Served) -> Served:
    gate.log_in()
    gate.run(gate.world.add_connection("shop"))
    return gate


def test_rule_names_repositories_and_paths_and_lists_what_is_left_out_as_all(root: Served) -> None:
    runbooks = ("--runbook", f"https://{OPS}.git//deploy/", "--runbook", f"https://{OPS}", "--runbook", "x:1/a//b//c")
    made = root.json(*RULES, "create", "deploys", *runbooks)
    assert made["runbooks"] == [
        {"repository": OPS, "name": "deploy/"},
        {"repository": OPS, "name": ""},
        {"repository": "x:1/a//b", "name": "c"},
    ]
    line = root.ok(*RULES, "list").stdout.splitlines()[0].split("\t")
    assert (line[0], *line[2:4]) == ("deploys", "all", "all")


def test_a_rule_that_lost_its_connections_says_so(root: Served) -> None:
    root.ok(*RULES, "create", "deploys", "--runbook", OPS, "--connection", "shop")
    root.ok("connections", "delete", "shop", "--yes")
    assert "none: all were deleted" in root.ok(*RULES, "show", "deploys").stdout
    refused = root.cli(*RULES, "update", "deploys", "--no-connections")
    assert (refused.exit_code, "list some, or delete the rule" in refused.stderr) == (1, True)


def test_what_is_wrong_is_said(root: Served) -> None:
    nothing = root.cli(*RULES, "create", "deploys")
    assert (nothing.exit_code, "runbooks: must be 1 to 100" in nothing.stderr) == (1, True)
    root.log_in(ANN)
    assert root.cli(*RULES, "list").exit_code == 4
