"""`postern admin tracker` and `issuetemplates` against the real API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.issues import wanted
from tests.support.served import Served

from postern.domain.issues.issue import IssueState

pytestmark = pytest.mark.ci

SET = ("admin", "tracker", "set", "jira_cloud", "https://acme.example.com", "--user", "ann@example.com")
TEMPLATE = {
    "name": "changes",
    "project_key": "OPS",
    "request_type_id": "10",
    "mapping_types": {"items": [{"tracker_field": "f1", "type": "preset", "value": "session.connection"}]},
    "prompt_types": {"items": [{"tracker_field": "f2", "label": "Reason", "required": True}]},
    "cmdb_types": {"items": [{"tracker_field": "f3", "tracker_object_type": "Server"}]},
}


@pytest.fixture
def root(gate: Served) -> Served:
    gate.log_in()
    return gate


def test_a_tracker_is_set_up_changed_and_removed(root: Served, tmp_path: Path) -> None:
    assert root.cli("admin", "tracker", "show").exit_code == 5
    assert "give KIND, URL and --token-stdin" in root.cli(*SET).stderr
    made = root.ok(*SET, "--token-stdin", stdin="tok-secret\n")
    assert made.stdout.startswith("Sessions open issues at https://acme.example.com.")
    assert "tok-secret" not in made.output
    assert root.cli("admin", "tracker", "set").exit_code == 2
    root.ok("admin", "tracker", "set", "--when-down", "go_on", "--disabled")
    shown = root.json("admin", "tracker", "show")
    assert (shown["user"], shown["when_down"], shown["enabled"]) == ("ann@example.com", "go_on", False)
    assert "tok-secret" not in root.ok("admin", "tracker", "show").output
    refused = root.cli("admin", "tracker", "set", "jira_cloud", "https://other.example.com")
    assert (refused.exit_code, "give the token again" in refused.stderr) == (1, True)
    pem = tmp_path / "ca.pem"
    pem.write_text("another")
    assert "give the token again" in root.cli("admin", "tracker", "set", "--authority", str(pem)).stderr
    assert root.cli("admin", "tracker", "remove", stdin="n\n").exit_code == 1
    root.ok("admin", "tracker", "remove", "--yes")
    assert root.cli("admin", "tracker", "show").exit_code == 5


def test_a_tracker_is_asked_who_we_are_and_which_assets_there_are(root: Served) -> None:
    root.ok(*SET, "--token-stdin", stdin="good\n")
    assert root.ok("admin", "tracker", "test", "OPS").stdout == "it knows us.\n"
    refused = root.cli("admin", "tracker", "test", "NO")
    assert (refused.exit_code, "there is no project NO" in refused.stderr) == (1, True)
    found = root.json("admin", "tracker", "objects", "Server", "--query", "db", "--limit", "1")
    assert ([one["name"] for one in found["data"]], found["total"]) == (["db1"], 2)
    assert root.ok("admin", "tracker", "objects", "Room").output.startswith("No asset matches.")


def test_template_is_shown_with_its_fields_and_cannot_steer_the_terminal(root: Served) -> None:
    steers = {"tracker_field": "f", "type": "custom", "value": "\x1b[2J\n\u202e"}
    mapped = [*TEMPLATE["mapping_types"]["items"], steers]  # type: ignore[index]
    body = TEMPLATE | {"mapping_types": {"items": mapped}}
    root.ok("admin", "issue-templates", "create", "-", stdin=json.dumps(body))
    shown = root.ok("admin", "issue-templates", "show", "changes").stdout
    assert "f1  preset  session.connection" in shown
    assert "f2  asked (text, required)  Reason" in shown
    assert "f3  asset  asked (Server)" in shown
    assert "f  custom  \\x1b[2J\\n\\u202e\n" in shown
    wrong = TEMPLATE | {"mapping_types": {"items": [{"tracker_field": "f", "type": "preset", "value": "x"}]}}
    refused = root.cli("admin", "issue-templates", "create", "-", stdin=json.dumps(wrong))
    assert "mapping_types.items[0].value: unknown preset 'x'; use one of session.id" in refused.stderr


def test_template_is_previewed_before_it_is_saved(root: Served, tmp_path: Path) -> None:
    mapped = {"items": [{"tracker_field": "f1", "type": "preset", "value": "session.colour"}]}
    draft = tmp_path / "draft.json"
    draft.write_text(json.dumps(TEMPLATE | {"mapping_types": mapped}))
    shown = root.ok("admin", "issue-templates", "preview", "-f", str(draft), "--issue-field", "f2=because").stdout
    assert "f2  because" in shown
    assert "session.colour" in shown
    assert "unknown preset; the template cannot be saved" in shown
    assert "postern-session-" in shown
    root.ok("admin", "issue-templates", "create", "-", stdin=json.dumps(TEMPLATE))
    preview = root.json("admin", "issue-templates", "preview", "changes")
    assert [(field["source"], field["required"]) for field in preview["unfilled"]] == [
        ("Reason", True),
        ("Server", False),
    ]
    assert root.cli("admin", "issue-templates", "preview").exit_code == 2
    assert root.cli("admin", "issue-templates", "preview", "chnges").exit_code == 5


def test_issues_that_were_given_up_are_listed_and_tried_again(root: Served) -> None:
    issues = root.world.stores.session_issues
    one, other = (wanted(root.world, state=IssueState.GIVEN_UP, next_at=None, error="no such project") for _ in "12")
    root.run(issues.add(one))
    root.run(issues.add(other))
    shown = root.ok("admin", "tracker", "issues", "--state", "given_up").stdout
    assert str(one.session_id) in shown
    assert "no such project" in shown
    assert "No issue matches." in root.ok("admin", "tracker", "issues", "--state", "made").output
    assert root.ok("admin", "tracker", "retry", str(one.session_id)).stdout == "1 issues are being retried.\n"
    assert root.cli("admin", "tracker", "retry", str(one.session_id)).exit_code == 5
    assert root.json("admin", "tracker", "retry") == {"waiting": 1}
    assert root.json("admin", "tracker", "issues", "--state", "wanted")["total"] == 2
