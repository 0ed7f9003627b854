"""The commands that all resources have in common, for each resource, against the real API over HTTP.

A new resource adds a line to CASES.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import pytest
from tests.cli.test_completion import completed
from tests.support.public_keys import ed25519_line
from tests.support.runbooks import NAME, URL
from tests.support.served import Served, served
from tests.support.shelf import shelve

from postern.cli import completion
from postern.cli.lazy import AliasGroup
from postern.cli.main import cli
from postern.cli.nouns import NOUNS, Noun
from postern.cli.resource_group import DELETE, LIST, SHOW, UPDATE, ResourceGroup

ROOT = Path(__file__).resolve().parents[2]
EVENTS = ("--event", "session.close", "--event", "audit.entry")
GUARDRAIL = {"input": {"rules": [{"type": "deny_words_list", "words": ["x"], "pattern_regex": ""}]}}
TEMPLATE = {
    "project_key": "OPS",
    "request_type_id": "10",
    "mapping_types": {"items": [{"tracker_field": "f1", "type": "preset", "value": "session.connection"}]},
}


@dataclass(frozen=True)
class Case:
    """One resource: how an item of it is created and changed, and what is printed of it.

    `create` and `update` follow the verb; `stdin` is for both. `creates` and `changes` are fields of the API's answer
    then, `shows` parts of what `show` prints. `keyed` is what addresses the item, `renamed` after the update."""

    group: str
    keyed: str
    create: tuple[str, ...]
    creates: dict[str, Any]
    shows: tuple[str, ...]
    update: tuple[str, ...] = ()
    changes: dict[str, Any] = field(default_factory=dict)
    renamed: str = ""
    stdin: str | None = None
    old: str = ""  # the group's name in earlier versions

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.group.split())


CASES = [
    Case(
        "admin access-rules",
        "night",
        (*("night", "--group", "dba", "--connection", "shop"), *("--tag", "stage=test", "--description", "at night")),
        {"groups": ["dba"], "connection_names": ["shop"], "connection_tags": {"stage": "test"}},
        ("at night", "stage=test"),
        ("--name", "day", "--group", "dba", "--group", "sre", "--no-tags"),
        {"groups": ["dba", "sre"], "connection_tags": {}, "connection_names": ["shop"], "description": "at night"},
        renamed="day",
    ),
    Case(
        "admin network-rules",
        "office",
        (*("office", "--network", "192.0.2.0/24", "--group", "dba"), *("--connection", "shop", "--tag", "stage=test")),
        {
            "allowed_networks": ["192.0.2.0/24"],
            "groups": ["dba"],
            "connection_names": ["shop"],
            "connection_tags": {"stage": "test"},
            "enabled": True,
        },
        ("192.0.2.0/24", "stage=test"),
        ("--name", "home", "--network", "2001:db8::/32", "--everyone", "--no-tags", "--disabled"),
        {
            "allowed_networks": ["2001:db8::/32"],
            "groups": [],
            "connection_tags": {},
            "connection_names": ["shop"],
            "enabled": False,
        },
        renamed="home",
    ),
    Case(
        "admin review-rules",
        "pairs",
        (
            *("pairs", "--for", "jit", "--connection", "shop", "--tag", "stage=prod", "--reviewers", "leads"),
            *("--reviewers", "sre", "--approvals", "2", "--all-groups", "--force", "boss", "--exempt-group", "on-call"),
            *("--max-duration", "10m"),
        ),
        {
            "access_type": "jit",
            "reviewers_groups": ["leads", "sre"],
            "min_approvals": 2,
            "all_groups_must_approve": True,
            "force_approval_groups": ["boss"],
            "skip_review_groups": ["on-call"],
            "access_max_duration": 600,
            "connection_tags": {"stage": "prod"},
        },
        ("leads, sre", "stage=prod"),
        (
            *(
                "--name",
                "two",
                "--no-tags",
                "--no-exempt-groups",
                "--no-force",
                "--no-max-duration",
                "--any-group",
                "--required-group",
                "dba",
            ),
        ),
        {
            "connection_names": ["shop"],
            "connection_tags": {},
            "skip_review_groups": [],
            "force_approval_groups": [],
            "access_max_duration": None,
            "all_groups_must_approve": False,
            "approval_required_groups": ["dba"],
        },
        renamed="two",
        old="admin reviewrules",
    ),
    Case(
        "admin runbook-rules",
        "deploys",
        ("deploys", "--runbook", f"https://{NAME}.git//deploy/", "--connection", "shop", "--group", "dev"),
        {"runbooks": [{"repository": NAME, "name": "deploy/"}], "connections": ["shop"], "user_groups": ["dev"]},
        (f"{NAME}//deploy/", "dev"),
        ("--name", "all", "--no-connections", "--no-groups"),
        {"connections": [], "user_groups": []},
        renamed="all",
        old="admin runbookrules",
    ),
    Case(
        "admin runbook-repositories",
        NAME,
        (URL, "--user", "me", "--password-file", "-", "--hooks", "60"),
        {"git_user": "me", "git_hook_ttl": 60, "secrets_set": ["git_password"]},
        (NAME, "git_password"),
        ("--branch", "next", "--hooks", "0"),
        {"git_branch": "next", "git_hook_ttl": 0, "git_user": "me"},
        stdin="planted\n",
        old="admin runbookrepos",
    ),
    Case(
        "runbooks schedules",
        "nightly",
        ("nightly", "pin.runbook.sql", "-c", "shop", "--cron", "30 2 * * *", "-p", "pin=4711"),
        {"file_name": "/pin.runbook.sql", "connection_name": "shop", "parameter_names": ["pin"]},
        ("30 2 * * *", "UTC"),
        ("--name", "weekly", "--off", "--cron", "0 0 1 * *"),
        {"enabled": False, "next_at": None, "parameter_names": ["pin"]},
        renamed="weekly",
    ),
    Case(
        "admin issue-templates",
        "changes",
        ("changes", "-f", "-"),
        {"project_key": "OPS", "request_type_id": "10"},
        ("f1  preset  session.connection",),
        ("--name", "renamed", "--set", "description=what changed"),
        {"project_key": "OPS", "description": "what changed"},
        renamed="renamed",
        stdin=json.dumps(TEMPLATE),
        old="admin issuetemplates",
    ),
    Case(
        "admin sinks",
        "siem",
        ("siem", "webhook", "https://siem.example.com/x", *EVENTS, "--group", "dba"),
        {"kind": "webhook", "events": ["session.close", "audit.entry"]},
        ("webhook", "https://siem.example.com/x"),
        ("--name", "trail", "--event", "audit.entry", "--with-script"),
        {"events": ["audit.entry"], "with_script": True},
        renamed="trail",
    ),
    Case("admin groups", "writers", ("writers",), {}, ("writers",), ("--name", "editors"), {}, renamed="editors"),
    Case(
        "admin users",
        "eve@example.com",
        ("eve@example.com", "--name", "Eve", "--group", "dba"),
        {"name": "Eve", "groups": ["dba"], "status": "invited"},
        ("Eve", "invited"),
        ("--name", "Eva", "--no-groups"),
        {"name": "Eva", "groups": []},
    ),
    Case(
        "admin service-accounts",
        "reports",
        ("reports", "--group", "dba"),
        {"name": "reports", "groups": ["dba"]},
        ("dba",),
        ("--name", "Nightly reports", "--no-groups"),
        {"name": "Nightly reports", "groups": []},
        old="admin serviceaccounts",
    ),
    Case(
        "admin api-keys",
        "probe",
        ("probe", "--group", "auditor", "--network", "192.0.2.0/24", "--expires", "30d"),
        {"groups": ["auditor"], "allowed_networks": ["192.0.2.0/24"]},
        ("auditor", "192.0.2.0/24"),
        ("--name", "prober", "--allow-any-network"),
        {"allowed_networks": [], "groups": ["auditor"]},
        renamed="prober",
        old="admin apikeys",
    ),
    Case(
        "admin federation-rules",
        "shop-main",
        (
            *(
                "shop-main",
                "--service-account",
                "robot",
                "--issuer",
                "github",
                "--audience",
                "https://gate.example.com",
            ),
            *("--claim", "repository=acme/shop", "--claim", "ref=refs/heads/main", "--claim", "ref=refs/heads/next"),
        ),
        {
            "issuer_url": "https://token.actions.githubusercontent.com",
            "claims": {"ref": ["refs/heads/main", "refs/heads/next"], "repository": ["acme/shop"]},
            "login_duration_seconds": 900,
            "allow_admin": False,
        },
        ("robot", "ref=refs/heads/next", "fetched from the issuer"),
        ("--name", "shop", "--max-duration", "5m", "--allow-reuse"),
        {"login_duration_seconds": 300, "allow_reuse": True},
        renamed="shop",
    ),
    Case("admin agents", "outpost", ("outpost", "--mode", "embedded"), {"mode": "embedded"}, ("embedded",)),
    Case(
        "admin machines",
        "billing",
        ("billing", "--connection", "shop", "--attribute", "team=payments", "--hours", "2"),
        {"connection_names": ["shop"], "attributes": {"team": "payments"}},
        ("shop", "team=payments"),
        ("--no-connections", "--description", "invoices"),
        {"connection_names": [], "attributes": {"team": "payments"}, "description": "invoices"},
    ),
    Case("admin ssh-authorities", "people", ("people", "-"), {}, ("ssh-ed25519",), stdin=ed25519_line()),
    Case("ssh-keys", "laptop", ("-", "--name", "laptop"), {}, ("ssh-ed25519",), stdin=ed25519_line()),
    Case(
        "connections",
        "orders",
        ("orders", "--agent", "edge", "--env", "HOST=db", "--env", "USER=app", "--tag", "env=prod"),
        {"type": "database", "connection_tags": {"env": "prod"}},
        ("orders", "env=prod"),
        ("--set", "access_max_duration=3600", "--untag", "env"),
        {"access_max_duration": 3600, "connection_tags": {}},
    ),
    Case(
        "guardrails",
        "no-x",
        ("no-x", "-f", "-", "--connection", "shop"),
        {"output": {"rules": []}},
        ("input   deny  deny_words_list",),
        ("--name", "no-more-x", "--description", "for all"),
        {"description": "for all"},
        renamed="no-more-x",
        stdin=json.dumps(GUARDRAIL),
    ),
    Case(
        "masking",
        "people",
        (
            *("people", "--column", "customers.email", "--column", "users.*name", "--connection", "shop"),
            *("--strategy", "hash", "--type", "EMAIL_ADDRESS", "--type", "PHONE_NUMBER", "--threshold", "0.4"),
            *("--pattern", "BADGE=B-[0-9]{6}=?", "--word", "PROJECT=bluebird", "--word", "PROJECT=robin"),
        ),
        {
            "columns": ["customers.email", "users.*name"],
            "strategy": "hash",
            "strictness": "strict",
            "score_threshold": 0.4,
            "supported_entity_types": [{"name": "TYPES", "entity_types": ["EMAIL_ADDRESS", "PHONE_NUMBER"]}],
            "custom_entity_types": [
                {"name": "BADGE", "regex": "B-[0-9]{6}=?", "deny_list": None, "score": 0.8},
                {"name": "PROJECT", "regex": None, "deny_list": ["bluebird", "robin"], "score": 0.8},
            ],
        },
        ("users.*name", "hash", "PROJECT"),
        ("--name", "customers", "--strictness", "best_effort", "--column", "birthday"),
        {"columns": ["birthday"], "strategy": "hash", "strictness": "best_effort", "score_threshold": 0.4},
        renamed="customers",
    ),
]
IDS = [case.group for case in CASES]
CASE = pytest.mark.parametrize("case", CASES, ids=IDS)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served"), migrated) as gate:
        gate.log_in()
        gate.ok("admin", "service-accounts", "create", "robot")
        world = gate.world
        gate.run(world.add_connection("shop", gate.run(world.add_agent("edge"))))
        gate.run(
            shelve(world.stores, world.org_id, {"pin.runbook.sql": "select {{ .pin | squote }}"}, at=world.clock())
        )
        world.fetcher.put({"hello.runbook.sh": "echo hello\n"})
        yield gate


def noun_of(case: Case) -> Noun:
    return next(noun for noun in NOUNS if noun.command == case.group)


def group_of(case: Case) -> click.Group:
    command: click.Command | None = cli
    for word in case.words:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert isinstance(command, click.Group)
    return command


def rows(answer: Any) -> list[dict[str, Any]]:
    return list(answer["data"] if isinstance(answer, dict) else answer)


def picked(row: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    return {name: row.get(name) for name in fields}


@CASE
def test_item_is_created_listed_shown_updated_and_deleted_by_name(
    root: Served, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "PATIENCE", 60.0)
    monkeypatch.setattr(completion, "KEPT", 0.0)
    words, key, noun = case.words, case.keyed, noun_of(case)
    made = root.json(*words, "create", *case.create, stdin=case.stdin)
    assert picked(made, case.creates) == case.creates
    row = next(one for one in rows(root.json(*words, LIST)) if one[noun.key] == key)
    assert any(line.split("\t")[0] == key for line in root.ok(*words, LIST).stdout.splitlines())
    assert len(rows(root.json(*words, LIST, "--limit", "1"))) == 1
    assert key not in [one[noun.key] for one in rows(root.json(*words, LIST, "--offset", "100"))]
    assert completed(root, f"postern {case.group} show {key[:-1]}") == [key]
    if noun.searchable:
        assert [one[noun.key] for one in rows(root.json(*words, LIST, "--search", key.upper()))] == [key]
    shown = root.json(*words, SHOW, key)
    assert root.json(*words, SHOW, row["id"]) == shown
    assert picked(shown, case.creates) == case.creates
    assert all(text in root.ok(*words, SHOW, key).stdout for text in case.shows)
    if case.update:
        key = check_update(root, case, shown)
    check_delete(root, case, key)


def check_update(root: Served, case: Case, shown: dict[str, Any]) -> str:
    """Update the item, and return the name that it has then."""
    words, noun = case.words, noun_of(case)
    assert root.cli(*words, UPDATE, case.keyed).exit_code == 2
    wrong = root.cli(*words, UPDATE, case.keyed, "--set", "no_such_field=1")
    assert wrong.exit_code != 0
    changed = root.json(*words, UPDATE, case.keyed, *case.update)
    assert picked(changed, case.changes) == case.changes
    key = case.renamed or case.keyed
    after = root.json(*words, SHOW, key)
    assert (after["id"], after[noun.key]) == (shown["id"], key)
    assert picked(after, case.changes) == case.changes
    return key


def check_delete(root: Served, case: Case, key: str) -> None:
    words, group = case.words, group_of(case)
    if DELETE not in group.list_commands(click.Context(group)):
        return
    asks = case.group != "ssh-keys"  # where a key that was deleted is added again at once
    if asks:
        assert root.cli(*words, DELETE, key, stdin="n\n").exit_code == 1
    assert root.json(*words, SHOW, key)
    assert root.json(*words, DELETE, key, *(("--yes",) if asks else ())) == {"deleted": key}
    gone = root.cli(*words, SHOW, key)
    assert gone.exit_code == 5
    assert f"`postern {noun_of(case).listing}` lists the existing ones" in gone.stderr


@CASE
def test_old_words_work_as_the_new_ones(root: Served, case: Case) -> None:
    """The words of earlier versions: the group's name, get, add and remove."""
    group = group_of(case)
    assert isinstance(group, AliasGroup)
    words = tuple(case.old.split()) or case.words
    named = "".join(f"{word} " for word in case.words)
    for old, new in group.aliases.items():
        help_page = root.ok(*words, old, "--help").stdout
        assert help_page == root.ok(*case.words, new, "--help").stdout
        assert f"postern {named}{new}" in help_page or f"{named}{new}" in help_page
    assert not set(group.aliases) & set(group.list_commands(click.Context(group)))


@pytest.mark.parametrize(
    ("near", "name", "words"),
    [
        ("shpo", "shop", ("connections", "show")),
        ("shpo", "shop", ("connections", "test")),
        ("edgy", "edge", ("admin", "agents", "drain", "--yes")),
        ("ann@exmple.com", "ann@example.com", ("admin", "users", "deactivate", "--yes")),
    ],
)
def test_mistyped_name_suggests_the_nearest_one(root: Served, near: str, name: str, words: tuple[str, ...]) -> None:
    refused = root.cli(*words, near)
    assert (refused.exit_code, f"{near!r} (did you mean {name!r}?); " in refused.stderr) == (5, True)


def test_setting_a_field_that_is_not_there_names_those_that_are(root: Served) -> None:
    root.ok("admin", "groups", "create", "crew")
    refused = root.cli("admin", "groups", "update", "crew", "--set", "title=x")
    assert (refused.exit_code, "there is no field 'title'; the fields are " in refused.stderr) == (2, True)
    assert root.cli("admin", "groups", "update", "crew", "--set", "title").exit_code == 2
    assert root.json("admin", "groups", "update", "crew", "--set", "name=2024")["name"] == "2024"


def test_file_replaces_the_whole_item_and_goes_with_no_option(root: Served, tmp_path: Path) -> None:
    file = tmp_path / "rule.json"
    file.write_text(json.dumps({"name": "whole", "description": "first", **GUARDRAIL}))
    root.ok("guardrails", "create", str(file))  # as earlier versions took it
    file.write_text(json.dumps({"name": "whole", **GUARDRAIL}))
    both = root.cli("guardrails", "update", "whole", "-f", str(file), "--description", "other")
    assert (both.exit_code, "not both" in both.stderr) == (2, True)
    assert not root.json("guardrails", "update", "whole", "-f", str(file))["description"]
    root.ok("guardrails", "update", "whole", str(file))
    missing = root.cli("guardrails", "create", "no-such-file.json")
    assert (missing.exit_code, "cannot be read as a file" in missing.stderr) == (2, True)
    assert root.cli("guardrails", "create").exit_code == 2


def test_every_group_of_resources_is_in_the_table() -> None:
    """Except organisations and resources, which differ in what they can do."""
    rest = {"admin orgs", "admin resources"}
    assert {case.group for case in CASES} | rest == {noun.command for noun in NOUNS}
    assert all(isinstance(group_of(case), ResourceGroup) for case in CASES)


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [
        ("exec", "--no-wait-review", "--no-wait"),
        ("runbooks run", "--no-wait-review", "--no-wait"),
        ("admin review-rules create", "--longest=1h", "--max-duration=1h"),
        ("admin review-rules update", "--asked=dba", "--required-group=dba"),
        ("admin review-rules update", "--skip=dba", "--exempt-group=dba"),
        ("admin review-rules update", "--no-asked", "--no-required-groups"),
        ("admin review-rules update", "--no-skip", "--no-exempt-groups"),
        ("admin review-rules update", "--no-longest", "--no-max-duration"),
        ("admin api-keys update", "--any-network", "--allow-any-network"),
        ("login", "--organization=acme", "--organisation=acme"),
        ("recordings verify", "--organization=acme", "--organisation=acme"),
    ],
)
def test_options_of_earlier_versions_are_hidden_aliases(command: str, old: str, new: str) -> None:
    found: click.Command = cli
    context = click.Context(cli, info_name="postern", **cli.context_settings)
    for word in command.split():
        assert isinstance(found, click.Group)
        below = found.get_command(context, word)
        assert below is not None
        found, context = below, click.Context(below, context, info_name=word, resilient_parsing=True)
    # Below its parents: a command keeps the names of its help option from the first context that asks.
    made = [found.make_context("", given, context.parent, resilient_parsing=True) for given in ([old], [new], [])]
    assert made[0].params == made[1].params != made[2].params
    assert new.partition("=")[0] in found.get_help(context)
    assert old.partition("=")[0] not in found.get_help(context).replace(new.partition("=")[0], "")


def _hidden_words(text: str) -> list[str]:
    """Return the commands in a text that are named by a word of earlier versions."""
    found = []
    for line in re.findall(r"postern((?: +[a-z][a-z-]*)+)", text):
        command: click.Command | None = cli
        for word in line.split():
            if isinstance(command, AliasGroup) and word in command.aliases:
                found.append(f"postern{line}")
                break
            if not isinstance(command, click.Group):
                break
            command = command.get_command(click.Context(command), word)
    return found


def test_no_message_or_page_uses_a_word_of_earlier_versions() -> None:
    files = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    found = {str(file.relative_to(ROOT)): _hidden_words(file.read_text()) for file in files}
    assert {name: words for name, words in found.items() if words} == {}
    assert _hidden_words("see `postern admin apikeys list`, or postern ssh-keys add") == [
        "postern admin apikeys list",
        "postern ssh-keys add",
    ]
