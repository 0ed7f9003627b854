"""`postern reviews`, and `postern exec` on what needs one, against the real API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from click.testing import Result
from sqlalchemy import delete
from tests.support.promises import wait_until
from tests.support.served import ANN, PASSWORD, ROOT, Served

from postern.cli.commands.review_commands import changes
from postern.cli.login.profile import config, require
from postern.cli.scripts import review_wait
from postern.client.client import Client
from postern.client.client_http import Http
from postern.client.client_shapes import ReviewShape
from postern.domain.secret import Secret
from postern.domain.sessions.session import EndReason
from postern.domain.targets.connection import ConnectionType
from postern.store.database import Database
from postern.store.schema.review_tables import reviews

pytestmark = pytest.mark.ci

SCRIPT = "delete from orders\n-- \x1b[2J\u202e"
EXEC = ("exec", "guarded", "-i", SCRIPT)


@pytest.fixture
def ann(gate: Served) -> Served:
    """Ann is logged in; `guarded` is reviewed by administrators, and no worker runs anything."""
    agent = gate.run(gate.world.add_agent("edge"))
    gate.run(gate.world.add_connection("guarded", agent=agent, reviewers=("admin",), force_approve_groups=("admin",)))
    gate.log_in(ANN)
    return gate


def as_root(gate: Served, *arguments: str) -> Result:
    """By the administrator, whose configuration is elsewhere."""
    home = gate.folder.parent / "root"
    if not home.exists():
        line = ("login", gate.url, "--email", ROOT, "--password-stdin")
        assert gate.cli(*line, stdin=PASSWORD + "\n", XDG_CONFIG_HOME=str(home)).exit_code == 0
    return gate.cli(*arguments, XDG_CONFIG_HOME=str(home))


def status(gate: Served, key: str) -> str:
    return str(json.loads(as_root(gate, "reviews", "show", key, "--json").stdout)["status"])


def asked(gate: Served, *more: str) -> dict[str, Any]:
    """What is printed of a script that was put up and waits."""
    done = gate.cli(*EXEC, *more, "--no-wait", "--json")
    assert (done.exit_code, done.stderr) == (7, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_script_that_waits_says_who_decides_where_and_how_to_go_on(ann: Served) -> None:
    done = ann.cli(*EXEC, "--reason", "ticket 4711", "--no-wait")
    assert (done.exit_code, done.stdout) == (7, "")
    (review,) = ann.json("reviews")["data"]
    assert review["reason"] == "ticket 4711"
    lines = done.stderr.splitlines()
    assert lines[0] == "postern: this needs approval: 1 of admin"
    page = f"{ann.url}/reviews/{review['id']}"
    assert lines[1] == f"postern: approvers decide at {page} or with `postern reviews approve {review['id']}`"
    assert f"`postern exec --resume {review['session']}` continues" in lines[2]


def test_what_waits_longer_than_wanted_is_left(ann: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_wait, "PAUSE", 0.01)
    done = ann.cli(*EXEC, "--wait-review", "0.05", "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["output_status"], told["has_review"]) == (7, "waiting", True)
    assert told["review"]["status"] == "PENDING"
    again = ann.cli("exec", "--resume", told["session_id"], "--wait-review", "0.05")
    assert again.exit_code == 7
    assert "this needs approval" in again.stderr


def test_a_session_shows_its_review_and_who_decided(ann: Served) -> None:
    submitted = asked(ann, "--reason", "ticket 4711")
    session, review = submitted["session_id"], submitted["review"]["id"]
    assert "waiting for review" in ann.ok("sessions", "list").stdout
    waiting = ann.ok("sessions", "show", session).stdout
    for line in ("waiting for review", f"{review} (pending)", "ticket 4711", "reviewers      admin"):
        assert line in waiting, line
    as_root(ann, "reviews", "reject", review, "--comment", "not today")
    rejected = ann.ok("sessions", "show", session).stdout
    assert "status         refused" in rejected
    assert f"reviewed by    {ROOT} (rejected: not today)" in rejected


def test_what_colleagues_refuse_ends_with_its_own_code(ann: Served) -> None:
    told = asked(ann)
    refused = as_root(ann, "reviews", "reject", told["session_id"], "--comment", "use the job")
    assert refused.stdout == f"Rejected: onetime of {ANN} on guarded.\n"
    done = ann.cli("exec", "--resume", told["session_id"])
    assert (done.exit_code, done.stdout) == (8, "")
    assert done.stderr == f"postern: review {told['review']['id']} is REJECTED by {ROOT}: use the job\n"
    as_json = ann.cli("exec", "--resume", told["session_id"], "--json")
    assert (as_json.exit_code, json.loads(as_json.stdout)["review"]["status"]) == (8, "REJECTED")


@pytest.mark.parametrize("by", [("reviews", "withdraw"), ("sessions", "kill")])
def test_what_is_given_up_ends_with_its_own_code(ann: Served, by: tuple[str, str]) -> None:
    told = asked(ann)
    ann.ok(*by, told["session_id"])
    done = ann.cli("exec", "--resume", told["session_id"])
    assert done.exit_code == 9
    assert "is WITHDRAWN" in done.stderr


def test_what_was_taken_back_is_refused(ann: Served) -> None:
    told = asked(ann)
    assert as_root(ann, "reviews", "approve", told["review"]["id"]).exit_code == 0
    taken = as_root(ann, "reviews", "revoke", told["review"]["id"], "--comment", "too late", "--json")
    assert json.loads(taken.stdout)["status"] == "REVOKED"
    assert ann.cli("exec", "--resume", told["session_id"]).exit_code == 8


def test_what_ran_is_printed_once_more(ann: Served) -> None:
    told = asked(ann)
    as_root(ann, "reviews", "approve", told["review"]["id"])
    session, services = told["session_id"], ann.services

    async def run() -> None:
        claimed = await services.sessions.claim(UUID(session), "w1")
        assert claimed is not None
        ann.world.recordings.stored[claimed[0].id] = [(1.0, "o", b"DELETE 3\n")]
        await services.sessions.close(claimed[0].id, reason=EndReason.COMPLETED, exit_code=0, metrics={}, event_size=9)

    with ann.started("exec", "--resume", session) as process:
        wait_until(lambda: status(ann, session) == "PROCESSING")
        ann.run(run())
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "DELETE 3\n")
    assert "postern: approved; running" in err
    again = ann.cli("exec", "--resume", session)
    assert (again.exit_code, again.stdout) == (0, "DELETE 3\n")


def test_reviews_are_listed_and_shown_safely(ann: Served) -> None:
    told = asked(ann, "--reason", "ticket 4711")
    key = told["review"]["id"]
    for arguments in (("reviews",), ("reviews", "list", "--for-me"), ("reviews", "list", "--status", "pending")):
        (row,) = as_root(ann, *arguments).stdout.splitlines()
        cells = row.split("\t")
        assert (cells[0], cells[2:]) == (key, ["onetime", "PENDING", "guarded", ANN, "admin", "ticket 4711"])
    assert as_root(ann, "reviews", "list", "--mine").stderr == "No reviews.\n"
    assert as_root(ann, "reviews", "list", "--type", "jit").stdout == ""
    shown = as_root(ann, "reviews", "show", key)
    assert "delete from orders\n-- \\x1b[2J\\u202e" in shown.stdout
    assert "needs: admin (the connection's reviewers) has 0 of 1; admin can approve alone with --force" in shown.stdout
    assert f"{ann.url}/reviews/{key}" in shown.stdout
    for text in (shown.output, as_root(ann, "reviews", "show", key, "--json").output):
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_attack_a_long_script_hides_no_arguments(ann: Served) -> None:
    """Nor does one that ends with what looks like others: nothing stands behind it."""
    command: dict[str, Any] = {"type": ConnectionType.CUSTOM, "subtype": "bash", "command": ("bash",)}
    ann.run(ann.world.add_connection("box", reviewers=("admin",), **command))
    script = "\n" * 200 + "argument 1: '--dry-run'"
    waits = ann.cli("exec", "box", "-i", script, "--no-wait", "--json", "--", "--wipe")
    shown = as_root(ann, "reviews", "show", json.loads(waits.stdout)["session_id"]).stdout
    facts, _, text = shown.partition("\n\n")
    assert "page" in facts
    assert text == f"argument 1: '--wipe'\n\n{script}\n"


def test_an_approval_with_a_window_is_marked_and_told(ann: Served) -> None:
    told = asked(ann)
    window = ("--time-window", "22:00-06:00", "--time-zone", "Europe/Vienna")
    done = as_root(ann, "reviews", "approve", told["review"]["id"], "--force", *window, "--comment", "outage")
    assert done.stdout == f"Approved: onetime of {ANN} on guarded.\n"
    shown = as_root(ann, "reviews", "show", told["session_id"]).stdout
    assert "22:00 to 06:00 Europe/Vienna" in shown
    assert f"approved by {ROOT} (forced) at " in shown
    assert shown.rstrip().splitlines()[0].startswith("review")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("exec",), 2, "give the name of a connection"),
        (("exec", "--resume", "x", "guarded"), 2, "leave out its other options"),
        (("exec", "guarded", "-i", "x", "--wait-review", "3", "--no-wait"), 2, "not both"),
        (("reviews", "approve", "x", "--time-zone", "UTC"), 2, "--time-zone needs --time-window"),
        (("reviews", "approve", "x", "--time-window", "22:00"), 2, "22:00-06:00"),
        (("reviews", "approve", "x"), 5, "`postern reviews` lists the existing ones"),
        (("exec", "--resume", "00000000-0000-0000-0000-000000000000"), 5, "`postern sessions` lists the existing ones"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(ann: Served, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = ann.cli(*arguments)
    assert done.exit_code == code
    assert said in done.stderr


def test_nobody_approves_their_own(ann: Served) -> None:
    told = json.loads(as_root(ann, *EXEC, "--no-wait", "--json").stdout)
    done = as_root(ann, "reviews", "approve", told["review"]["id"])
    assert done.exit_code == 4
    assert "your own request" in done.stderr


def test_watching_shows_each_once_and_what_became_of_it(ann: Served) -> None:
    as_root(ann, "reviews")
    steps: Iterator[str] = iter(("ask", "look", "reject"))
    made: list[dict[str, Any]] = []

    def sleep(seconds: float) -> None:
        step = next(steps)
        if step == "ask":
            made.append(asked(ann))
        elif step == "reject":
            as_root(ann, "reviews", "reject", made[0]["session_id"])

    token = config_token(ann.folder.parent / "root")
    with Http(ann.url, token) as http:
        seen = changes(Client(http), every=False, sleep=sleep)
        found: list[ReviewShape] = [next(seen), next(seen)]
    assert [(one["session"], one["status"]) for one in found] == [
        (made[0]["session_id"], "PENDING"),
        (made[0]["session_id"], "REJECTED"),
    ]


def test_watching_goes_on_when_one_is_not_there_any_more(ann: Served) -> None:
    as_root(ann, "reviews")
    steps: Iterator[str] = iter(("ask", "purge", "ask"))
    made: list[dict[str, Any]] = []

    def sleep(seconds: float) -> None:
        if next(steps) == "ask":
            made.append(asked(ann))
        else:
            ann.run(removed(ann.world.database))

    async def removed(database: Database) -> None:
        async with database.transaction() as transaction:
            await transaction.execute(delete(reviews))

    with Http(ann.url, config_token(ann.folder.parent / "root")) as http:
        seen = changes(Client(http), every=False, sleep=sleep)
        found = [next(seen), next(seen)]
    assert [one["session"] for one in found] == [one["session_id"] for one in made]


def config_token(home: Path) -> Secret:
    """Of the one profile of this configuration."""
    environment = {"XDG_CONFIG_HOME": str(home)}
    assert config(environment).profiles
    used = require(environment)
    assert used.token is not None
    return used.token


@pytest.mark.parametrize("more", [("select 1",), ("--env", "MODE=dry", "-i", "select 1")])
def test_exec_with_arguments_on_a_database_says_how_to_give_a_script(ann: Served, more: tuple[str, ...]) -> None:
    refused = ann.cli("exec", "guarded", *more)
    assert refused.exit_code == 2
    assert "`postern exec guarded -i 'select 1'`" in refused.stderr
    assert ann.json("sessions")["data"] == []


def test_exec_asks_for_no_review_while_the_agent_is_offline(ann: Served) -> None:
    ann.world.clock.forward(seconds=60)
    refused = ann.cli(*EXEC, "--no-wait")
    assert refused.exit_code == 6
    assert "the agent 'edge' of connection 'guarded' is offline" in refused.stderr
    assert "no review was requested" in refused.stderr
    assert ann.json("reviews")["data"] == []
    assert ann.json("sessions")["data"] == []


def test_access_is_requested_for_certain_hours(ann: Served) -> None:
    window = ("--time-window", "22:00-06:00", "--time-zone", "Europe/Vienna")
    requested = ann.cli("reviews", "request", "guarded", *window, "--json")
    assert requested.exit_code == 7
    hours = {"start_time": "22:00", "end_time": "06:00", "time_zone": "Europe/Vienna"}
    assert json.loads(requested.stdout)["review"]["time_window"] == {"type": "time_range", "configuration": hours}
    assert ann.cli("reviews", "request", "guarded", "--time-window", "22:00").exit_code == 2


def test_access_is_requested_for_a_credential(ann: Served) -> None:
    credential = ann.json("credentials", "issue", "guarded")["id"]
    waits = ann.cli("reviews", "request", "guarded", "--credential", credential, "--json")
    assert waits.exit_code == 7, waits.output
    own = json.loads(ann.cli("reviews", "request", "guarded", "--json").stdout)["review"]
    assert json.loads(waits.stdout)["review"]["id"] != own["id"]
    unknown = ann.cli("reviews", "request", "guarded", "--credential", str(uuid4()))
    assert unknown.exit_code == 5
    assert "of yours" in unknown.output + unknown.stderr


def test_access_is_requested_ahead_of_time_and_connects_at_once(ann: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    request = ("reviews", "request", "guarded", "--duration", "20m", "--reason", "ticket 4711")
    waits = ann.cli(*request)
    assert waits.exit_code == 7
    (review,) = ann.json("reviews")["data"]
    assert (review["type"], review["access_duration"], review["reason"]) == ("jit", 1200, "ticket 4711")
    lines = waits.stderr.splitlines()
    assert lines[0] == "postern: access to guarded needs approval: 1 of admin"
    assert f"{ann.url}/reviews/{review['id']}" in lines[1]
    again = ann.cli(*request, "--json")
    assert (again.exit_code, json.loads(again.stdout)["review"]["id"]) == (7, review["id"])
    assert as_root(ann, "reviews", "approve", review["id"]).exit_code == 0
    monkeypatch.setattr(review_wait, "PAUSE", 0.01)
    approved = ann.ok(*request, "--wait")
    assert "Approved until" in approved.stdout
    assert "run `postern connect guarded` now" in approved.stdout
    assert [one["id"] for one in ann.json("reviews")["data"]] == [review["id"]]


@pytest.mark.parametrize(
    ("arguments", "approved", "status", "said"),
    [
        (("reviews", "request", "guarded"), False, "EXPIRED", "has expired: it was not decided in time"),
        (("reviews", "request", "guarded"), True, "ENDED", "was approved, and the access has expired"),
        ((*EXEC, "--no-wait"), False, "EXPIRED", "has expired: it was not decided in time"),
        ((*EXEC, "--no-wait"), True, "UNUSED", "was approved, but not run in time"),
    ],
)
def test_reviews_that_nobody_decided_are_listed_apart_from_used_ones(
    ann: Served, arguments: tuple[str, ...], approved: bool, status: str, said: str
) -> None:
    assert ann.cli(*arguments).exit_code == 7
    (review,) = ann.json("reviews")["data"]
    if approved:
        assert as_root(ann, "reviews", "approve", review["id"]).exit_code == 0
    ann.world.clock.forward(hours=25)
    ann.run(ann.services.reviews.settle())
    ann.log_in(ANN)
    assert ann.ok("reviews", "list", "--status", "EXPIRED").stdout.split("\t")[3] == status
    assert re.search(rf"^status +{status}$", ann.ok("reviews", "show", review["id"]).stdout, re.MULTILINE)
    (shown,) = ann.json("reviews")["data"]
    assert (shown["status"], shown["outcome"]) == ("EXPIRED", status.lower())
    assert said in review_wait.outcome_line(shown)


def test_request_for_access_that_is_refused_has_the_code_of_a_refusal(
    ann: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    review = json.loads(ann.cli("reviews", "request", "guarded", "--json").stdout)["review"]
    monkeypatch.setattr(review_wait, "PAUSE", 0.01)
    monkeypatch.setattr(
        review_wait,
        "missing_approvals",
        lambda one: as_root(ann, "reviews", "reject", one["id"], "--comment", "no").output,
    )
    refused = ann.cli("reviews", "request", "guarded", "--wait")
    assert refused.exit_code == 8
    assert f"review {review['id']} is REJECTED by root@example.com: no" in refused.stderr


def test_request_for_access_that_needs_no_review_says_so(ann: Served) -> None:
    agent = ann.run(ann.world.add_agent("beside"))
    ann.run(ann.world.add_connection("open", agent=agent))
    assert "No approval is required" in ann.ok("reviews", "request", "open").stdout
    assert ann.json("reviews", "request", "open") == {"required": False, "review": None}
    assert ann.cli("reviews", "request", "nowhere").exit_code == 5


def test_request_for_access_by_ssh_is_refused_with_what_to_do(ann: Served) -> None:
    agent = ann.run(ann.world.add_agent("beside"))
    fields = {"type": ConnectionType.APPLICATION, "subtype": "ssh", "reviewers": ("admin",)}
    ann.run(ann.world.add_connection("web", agent=agent, **fields))
    refused = ann.cli("reviews", "request", "web")
    assert (refused.exit_code, "run `ssh`, which requests the review itself" in refused.stderr) == (1, True)
