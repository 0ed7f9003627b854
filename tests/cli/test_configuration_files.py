"""`postern export` and `postern apply`, for every kind of resource, against the real API over HTTP, on both engines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.public_keys import ed25519_line
from tests.support.served import Served, served

import postern.api.application  # noqa: F401 - registers all kinds
from postern.api.resource_kinds import KINDS
from postern.cli.lazy import DENIED, FAILED, PENDING, USAGE
from postern.client.client_http import Http
from postern.errors import Denied

REPOSITORY = "https://git.example.com/team/runbooks.git"
NAME = "git.example.com/team/runbooks"
SSH_KEY = ed25519_line()
JWK = {
    "kty": "EC",
    "crv": "P-256",
    "kid": "on",
    "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
    "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
}  # of RFC 7517, A.1
ENVIRONMENT = {
    "SHOP_PASS": "planted pass",
    "SIEM_TOKEN": "planted-token",
    "OPS_BOT_TOKEN": "planted-xoxb",
    "OPS_SIGNING_SECRET": "planted-signs",
    "GIT_PASSWORD": "planted-planted",
    "PIN": "planted-4711",
    "TRACKER_TOKEN": "planted-tracked",
}
SECRET = re.compile(r"(password|pass|secret|token|key|keys|headers|keypass|parameters)$")

# A sample of each kind: its name, and its fields. A new kind fails the tests until it has one.
SAMPLES: dict[str, tuple[str, dict[str, Any]]] = {
    "group": ("dba team", {}),
    "user": ("eve@example.com", {"name": "Eve", "groups": ["dba team"], "status": "invited"}),
    "service-account": ("reports", {"name": "Nightly reports", "groups": ["dba team"]}),
    "api-key": ("probe", {"groups": ["auditor"], "allowed_networks": ["192.0.2.0/24"]}),
    "ssh-authority": ("people", {"public_key": SSH_KEY}),
    "agent": ("edge", {"mode": "standard"}),
    "connection": (
        "shop",
        {
            "subtype": "postgres",
            "agent": "edge",
            "description": "The shop\nof all",
            "connection_tags": {"env": "no", "on": "1.10"},
            "access_max_duration": 3600,
            "reviewers": ["dba team"],
            "redact_types": ["EMAIL_ADDRESS"],
            "redact_enabled": True,
            "secret": {
                "envvar:HOST": "db.example.com",
                "envvar:USER": "app",
                "envvar:PASS": {"env": "SHOP_PASS"},
                "envvar:DB": "_vaultkv2:kv/shop:db",
            },
        },
    ),
    "guardrail": (
        "no-drop",
        {
            "connections": ["shop"],
            "input": {"rules": [{"type": "deny_words_list", "words": ["drop"], "message": "ask a DBA"}]},
            "enabled": True,
        },
    ),
    "masking-rule": (
        "people",
        {
            "connections": ["shop"],
            "columns": ["customers.email"],
            "strategy": "hash",
            "score_threshold": 0.4,
            "custom_entity_types": [{"name": "BADGE", "regex": "B-[0-9]{6}"}],
        },
    ),
    "access-rule": ("night", {"groups": ["dba team"], "connection_names": ["shop"], "connection_tags": {"a": "b"}}),
    "network-rule": (
        "office",
        {"allowed_networks": ["192.0.2.0/24"], "groups": ["dba team"], "connection_names": ["shop"]},
    ),
    "federation-rule": (
        "ci",
        {
            "service_account": "reports",
            "issuer_url": "https://ci.example.com",
            "audience": "https://gateway.example.com",
            "claims": {"sub": ["project:*"]},
            "jwks": {"keys": [JWK]},
        },
    ),
    "review-rule": (
        "pairs",
        {
            "access_type": "jit",
            "connection_names": ["shop"],
            "reviewers_groups": ["leads", "dba team"],
            "min_approvals": 2,
            "access_max_duration": None,
        },
    ),
    "runbook-repository": (
        NAME,
        {"git_url": REPOSITORY, "git_user": "me", "git_password": {"env": "GIT_PASSWORD"}, "git_hook_ttl": 60},
    ),
    "runbook-rule": (
        "deploys",
        {"runbooks": [{"repository": NAME, "name": "deploy/"}], "connections": ["shop"], "user_groups": []},
    ),
    "runbook-schedule": (
        "nightly",
        {
            "connection_name": "shop",
            "repository": NAME,
            "file_name": "/pin.runbook.sql",
            "cron": "30 2 * * *",
            "timezone": "Europe/Oslo",
            "parameters": {"pin": {"env": "PIN"}},
        },
    ),
    "issue-template": (
        "changes",
        {
            "project_key": "OPS",
            "request_type_id": "10",
            "connections": ["shop"],
            "mapping_types": {"items": [{"tracker_field": "f1", "type": "preset", "value": "session.connection"}]},
        },
    ),
    "sink": (
        "siem",
        {
            "kind": "webhook",
            "address": "https://siem.example.com/x",
            "events": ["session.close"],
            "headers": {"Authorization": {"env": "SIEM_TOKEN"}},
            "scope": {"connections": ["shop"], "connection_tags": {}, "groups": []},
        },
    ),
    "machine-identity": ("billing", {"connection_names": ["shop"], "attributes": {"team": "payments"}}),
    "connection-retention": ("shop", {"recording_days": 30, "session_days": 90}),
    "retention": ("retention", {"recording_days": 300, "session_days": None}),
    "tracker": (
        "tracker",
        {
            "kind": "jira_cloud",
            "url": "https://jira.example.com",
            "user": "a@b.example",
            "token": {"env": "TRACKER_TOKEN"},
        },
    ),
    "organisation": ("organisation", {"access_help": "Ask in #dba."}),
    "server-settings": ("server-settings", {"public_host": "gateway.example.com"}),
    "login-settings": ("login-settings", {"auth_method": "local", "require_second_factor": False}),
    "feature": ("access-control", {"enabled": True}),
}


def document(kind: str, name: str = "", **changes: Any) -> dict[str, Any]:
    sample, spec = SAMPLES[kind]
    return {"kind": kind, "name": name or sample, "spec": {**spec, **changes}}


def write(folder: Path, *documents: dict[str, Any], file: str = "all.yaml") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / file).write_text(yaml.safe_dump_all(documents, allow_unicode=True))
    return folder


def prepare(gate: Served) -> None:
    """What a configuration does not have: the files in git."""
    gate.world.fetcher.put({"pin.runbook.sql": "select {{ .pin | squote }}"}, REPOSITORY)


def apply(gate: Served, *arguments: str, **more: Any) -> Any:
    return json.loads(gate.ok("apply", *arguments, "--yes", "--json", **ENVIRONMENT, **more).stdout)


def plan(gate: Served, *arguments: str) -> Any:
    return json.loads(gate.ok("apply", *arguments, "--plan", "--json").stdout)


def files(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.fixture
def one(tmp_path: Path, migrated: Path) -> Iterator[Served]:
    """For what is the same on both engines."""
    (tmp_path / "one").mkdir()
    with served(tmp_path / "one", migrated) as one:
        one.log_in()
        yield one


@pytest.fixture
def gate(tmp_path: Path, migrated: Path, database_url: str) -> Iterator[Served]:
    (tmp_path / "served").mkdir()
    with served(tmp_path / "served", migrated, database_url) as gate:
        gate.log_in()
        yield gate


def test_every_kind_has_a_sample() -> None:
    assert SAMPLES.keys() == KINDS.keys()


def test_every_field_that_sounds_secret_is_marked_as_one() -> None:
    """Else files could have its value, and plans would show it."""
    unmarked = [
        f"{name}: {field}"
        for name, kind in KINDS.items()
        for schema in [kind.request.model_json_schema(), *kind.request.model_json_schema().get("$defs", {}).values()]
        for field, described in schema.get("properties", {}).items()
        if SECRET.search(field) and "x-secret" not in described and field not in ("public_key", "project_key")
    ]
    assert unmarked == []


def test_applying_again_does_nothing_and_an_export_is_the_same_configuration(gate: Served, tmp_path: Path) -> None:
    prepare(gate)
    source = write(tmp_path / "source", *(document(kind) for kind in SAMPLES))
    first = apply(gate, "-f", str(source))
    assert (first["failed"], first["inexact"]) == (None, [])
    assert {change["kind"] for change in first["changes"] if change["action"] == "create"} >= {"connection", "sink"}
    again = apply(gate, "-f", str(source))
    assert again["changes"] == []
    assert [one for one in again["applied"] if one["result"] != "unchanged"] == []

    gate.ok("export", str(tmp_path / "exported"))
    exported = files(tmp_path / "exported")
    assert not any(value in text for text in exported.values() for value in ENVIRONMENT.values())
    gate.ok("export", str(tmp_path / "exported"))
    assert files(tmp_path / "exported") == exported
    result = json.loads(gate.ok("apply", "-f", str(tmp_path / "exported"), "--plan", "--json").stdout)
    assert [
        change for change in result["changes"] if {one["field"] for one in change["fields"]} != {"managed_by"}
    ] == []

    managers = {kind: managers_of(gate, kind) for kind in KINDS if KINDS[kind].has_manager}
    assert {kind for kind, names in managers.items() if "apply" not in names} == set()


def managers_of(gate: Served, kind: str) -> set[str | None]:
    with client_of(gate) as http:
        return {row["managed_by"] for row in http.all(KINDS[kind].path)}


def client_of(gate: Served) -> Http:
    return Http(gate.url, gate.config.profiles[gate.config.current].token)


def test_export_makes_an_empty_gateway_the_same(gate: Served, tmp_path: Path, migrated: Path) -> None:
    prepare(gate)
    apply(gate, "-f", str(write(tmp_path / "source", *(document(kind) for kind in SAMPLES))))
    gate.ok("export", str(tmp_path / "before"))
    exported = files(tmp_path / "before")
    variables = {name: f"planted-{name}" for text in exported.values() for name in variables_in(text)}
    (tmp_path / "other").mkdir()
    with served(tmp_path / "other", migrated) as other:
        other.log_in()
        prepare(other)
        result = other.ok("apply", "-f", str(tmp_path / "before"), "--yes", "--json", **variables)
        assert (json.loads(result.stdout)["inexact"], json.loads(result.stdout)["failed"]) == ([], None)
        other.ok("export", str(tmp_path / "after"))
    after = files(tmp_path / "after")
    server = "settings/server-settings.yaml"  # the address of each
    assert {name: text for name, text in after.items() if name != server} == {
        name: text for name, text in exported.items() if name != server
    }


def variables_in(text: str) -> list[str]:
    return [line.partition("env: ")[2].strip() for line in text.splitlines() if "env: " in line]


def test_change_on_the_gateway_is_drift_and_the_plan_names_who_made_it(one: Served, tmp_path: Path) -> None:
    source = write(tmp_path / "source", document("agent"), document("connection"), document("guardrail"))
    apply(one, "-f", str(source))
    changed = one.ok("guardrails", "update", "no-drop", "--description", "by hand", "--set", "enabled=false")
    assert "managed by apply" in changed.stderr
    shown = one.cli("apply", "-f", str(source), "--plan", "--exit-code")
    assert shown.exit_code == PENDING
    assert "~ guardrail no-drop" in shown.stdout
    assert "last changed on the gateway by root@example.com" in shown.stdout
    [change] = plan(one, "-f", str(source))["changes"]
    assert change["fields"] == [{"field": "enabled", "old": False, "new": True, "is_secret": False}]
    assert (change["file"], change["last_change"]["by"]) == (str(source / "all.yaml"), "root@example.com")
    apply(one, "-f", str(source))
    assert one.cli("apply", "-f", str(source), "--plan", "--exit-code").exit_code == 0
    row = one.json("guardrails", "show", "no-drop")
    assert (row["enabled"], row["description"], row["managed_by"]) == (True, "by hand", "apply")


def test_prune_deletes_only_what_the_same_manager_has(one: Served, tmp_path: Path) -> None:
    full = [document(kind) for kind in ("agent", "connection", "guardrail", "access-rule")]
    apply(one, "-f", str(write(tmp_path / "a", *full)))
    apply(one, "-f", str(write(tmp_path / "b", document("group", "other"))), "--manager", "team-b")
    one.ok("admin", "groups", "create", "manual")
    keep = str(write(tmp_path / "c", document("agent")))
    assert plan(one, "-f", keep)["changes"] == []
    planned = plan(one, "-f", keep, "--prune")["changes"]
    assert {(change["action"], change["kind"]) for change in planned} == {
        ("delete", "access-rule"),
        ("delete", "guardrail"),
        ("delete", "connection"),
    }
    assert planned[-1]["kind"] == "connection"  # after the rules that name it
    apply(one, "-f", keep, "--prune")
    assert one.json("connections") == []
    assert {"manual", "other"} <= {row["name"] for row in one.json("admin", "groups", "list")["data"]}
    apply(one, "-f", str(write(tmp_path / "a", *full)))
    dangling = str(write(tmp_path / "d", document("agent"), document("guardrail")))
    assert "there is no connection 'shop'" in one.cli("apply", "-f", dangling, "--prune", "--yes").stderr
    empty = tmp_path / "empty"
    empty.mkdir()
    refused = one.cli("apply", "-f", str(empty), "--prune", "--yes")
    assert (refused.exit_code, "there is no resource in" in refused.stderr) == (FAILED, True)


def test_resource_of_another_manager_is_not_taken(one: Served, tmp_path: Path) -> None:
    source = str(write(tmp_path / "source", document("group")))
    apply(one, "-f", source, "--manager", "team-b")
    refused = one.cli("apply", "-f", source, "--yes")
    assert refused.exit_code == FAILED
    assert "is managed by 'team-b'" in refused.stderr
    assert apply(one, "-f", source, "--take-over")["changes"][0]["fields"][0]["new"] == "apply"


def test_managed_by_is_for_administrators_and_has_a_grammar(one: Served) -> None:
    one.ok("admin", "groups", "create", "g")
    assert "managed_by" in one.cli("admin", "groups", "update", "g", "--set", "managed_by=a b").stderr
    assert one.json("admin", "groups", "update", "g", "--set", "managed_by=team/a")["managed_by"] == "team/a"
    assert one.json("admin", "groups", "update", "g", "--set", "managed_by=agent:x")["managed_by"] == "team/a"
    assert one.json("admin", "groups", "update", "g", "--set", "managed_by=")["managed_by"] is None


def test_change_between_plan_and_apply_is_a_conflict(
    one: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(one, "-f", str(write(tmp_path / "a", document("agent"), document("connection"), document("guardrail"))))
    source = write(tmp_path / "b", document("connection", description="other"), document("guardrail", enabled=False))

    def meanwhile(question: str, yes: bool) -> None:
        gate_update = ("connections", "update", "shop", "--set", "description=by somebody else")
        other = Served(one.url, one.world, one.services, one.root, one.folder, one.loop)
        other.ok(*gate_update)

    monkeypatch.setattr("postern.cli.commands.configuration_commands.confirm", meanwhile)
    result = one.cli("apply", "-f", str(source), **ENVIRONMENT)
    assert result.exit_code == FAILED
    assert "was changed since the plan was made" in result.stderr
    assert "guardrail no-drop: not applied" in result.stdout
    assert one.json("connections", "show", "shop")["description"] == "by somebody else"
    assert one.json("guardrails", "show", "no-drop")["enabled"] is True


def test_secrets_that_are_left_out_stay_and_unset_variables_are_an_error(one: Served, tmp_path: Path) -> None:
    source = write(tmp_path / "a", document("agent"), document("connection"))
    refused = one.cli("apply", "-f", str(source), "--yes")
    assert refused.exit_code == FAILED
    assert "the variable SHOP_PASS is not set" in refused.stderr
    assert one.json("connections") == []
    apply(one, "-f", str(source))
    stored = one.run(secret_of(one))
    assert stored["envvar:PASS"] == "cGxhbnRlZCBwYXNz"
    left_out = {"envvar:HOST": "db2.example.com", "envvar:USER": "app"}
    again = write(tmp_path / "b", document("connection", secret=left_out))
    [change] = plan(one, "-f", str(again))["changes"]
    assert [(one["field"], one["old"], one["new"]) for one in change["fields"]] == [
        ("secret.envvar:HOST", "db.example.com", "db2.example.com")
    ]
    json.loads(one.ok("apply", "-f", str(again), "--yes", "--json").stdout)
    assert one.run(secret_of(one)) == {**stored, "envvar:HOST": "ZGIyLmV4YW1wbGUuY29t"}
    kept = json.loads(one.ok("apply", "-f", str(source), "--yes", "--json", "--keep-secrets").stdout)
    assert kept["failed"] is None
    assert one.run(secret_of(one)) == stored
    rotated = json.loads(one.ok("apply", "-f", str(source), "--yes", "--json", SHOP_PASS="planted new").stdout)
    assert {"kind": "connection", "name": "shop", "result": "changed (secret)"} in rotated["applied"]
    assert one.run(secret_of(one))["envvar:PASS"] == "cGxhbnRlZCBuZXc="
    removed = write(tmp_path / "c", document("connection", secret={"envvar:DB": None}))
    one.ok("apply", "-f", str(removed), "--yes")
    assert "envvar:DB" not in one.run(secret_of(one))


async def secret_of(gate: Served) -> dict[str, str]:
    connection = await gate.world.stores.connections.get(gate.world.org_id, "shop")
    assert connection is not None
    return {key: value.reveal() for key, value in connection.secret.items()}


def test_secrets_of_an_export_have_different_variables(one: Served, tmp_path: Path) -> None:
    names = ("web-1", "web.1")
    apply(one, "-f", str(write(tmp_path / "a", document("agent"), *(document("connection", name) for name in names))))
    one.ok("export", str(tmp_path / "out"), "--kind", "connection")
    exported = [yaml.safe_load(text) for text in files(tmp_path / "out").values()]
    variables = {each["name"]: each["spec"]["secret"]["envvar:PASS"]["env"] for each in exported}
    assert variables["web-1"] == "WEB_1_PASS"
    assert variables["web.1"].startswith("WEB_1_PASS_")


def test_secret_is_read_from_a_file_beside_the_document(one: Served, tmp_path: Path) -> None:
    source = write(tmp_path / "a", document("agent"), document("connection", secret={
        "envvar:HOST": "db", "envvar:USER": "u", "envvar:PASS": {"file": "pass.txt"}}))  # fmt: skip
    assert "cannot be read" in one.cli("apply", "-f", str(source), "--yes").stderr
    (source / "pass.txt").write_text("from a file\n")
    one.ok("apply", "-f", str(source), "--yes")
    assert one.run(secret_of(one))["envvar:PASS"] == "ZnJvbSBhIGZpbGU="


def test_secrets_shown_once_go_into_a_new_file_of_this_user(one: Served, tmp_path: Path) -> None:
    source, secrets = write(tmp_path / "a", document("agent")), tmp_path / "keys"
    one.ok("apply", "-f", str(source), "--yes", "--secrets-file", str(secrets))
    assert json.loads(secrets.read_text())["key"].startswith("grpcs://")
    assert secrets.stat().st_mode & 0o077 == 0
    again = one.cli("apply", "-f", str(source), "--yes", "--secrets-file", str(secrets))
    assert again.exit_code == FAILED
    assert "cannot be created" in again.stderr


HOSTILE = {
    "kind: group\nname: &a x\n": "anchors (&) and aliases (*) are not supported",
    "a: &a [x]\nb: [*a, *a]\n": "anchors (&) and aliases (*) are not supported",
    "kind: group\nname: !!python/object/apply:os.system ['id']\n": "tags such as",
    "kind: group\nname: !env X\n": "tags such as",
    "kind: group\nname: x\nname: y\n": ":3: 'name' occurs twice; the first is in line 2",
    "kind: grop\nname: x\n": ":1: there is no kind 'grop'; did you mean 'group'?",
    "kind: group\nname: x\nspecs: {}\n": ":3: there is no field 'specs'; did you mean 'spec'?",
    "kind: agent\nname: x\nspec:\n  mod: standard\n": "spec: agent has no field 'mod'; did you mean 'mode'?",
    "kind: agent\nname: x\nspec:\n  mode: standart\n": "did you mean 'standard'?",
    "kind: guardrail\nname: x\nspec:\n  enabled: yes\n": ":4: spec.enabled: must be true or false, without quotes",
    "kind: guardrail\nname: x\nspec:\n  connections: [shp]\n": "there is no connection 'shp'",
    "kind: guardrail\nname: x\nspec:\n  input: {rules: [{type: deny_words_list, word: [x]}]}\n": "'word'; did you mean",
    "kind: connection\nname: x\nspec:\n  agent: nowhere\n": ":4: there is no agent 'nowhere'",
    "kind: connection\nname: x\nspec:\n  secret: {'envvar:PASS': hunter2}\n": "write {env: VARIABLE}",
    "kind: connection\nname: x\nspec:\n  secret: {'envvar:PASS': {env: POSTERN_TOKEN}}\n": "is not allowed as the name",
    "kind: connection\nname: x\nspec:\n  managed_by: me\n": "is not part of files",
    "kind: connection\nname: x\nspec:\n  access_max_duration: '60'\n": "must be a whole number without quotes",
    "kind: tracker\nname: x\n": "there is one tracker, and its name is 'tracker'",
    "kind: feature\nname: acces-control\nspec: {enabled: true}\n": "cannot be created; did you mean 'access-control'",
    "kind: [group]\nname: x\n": "kind: a text is required",
    "- kind: group\n": "a document must be a mapping",
    "? [a]\n: b\n": "a key must be a text",
    "kind: group\nname: x\n---\nkind: group\nname: x\n": "is described twice; the first is at",
    "[" * 100 + "]" * 100: "levels deep",
    "kind: group\nname: \x01\n": "is not YAML",
    "kind: 'group\n": "is not YAML",
    "": "there is no resource in",
}


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[Served]:
    """A gateway that no test changes."""
    with served(tmp_path_factory.mktemp("still"), migrated) as still:
        still.log_in()
        yield still


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_or_wrong_file_is_an_error_with_its_line(still: Served, tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)
    result = still.cli("apply", "-f", str(file), "--yes")
    assert result.exit_code == FAILED
    assert HOSTILE[text] in result.stderr
    assert "hunter2" not in result.output


def test_billion_laughs_and_large_files_are_refused(still: Served, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    for content, text in ((b"a: " + b"x" * (5 << 20), "larger than"), (b"\xff\xfe", "is not UTF-8")):
        file.write_bytes(content)
        assert text in still.cli("apply", "-f", str(file), "--yes").stderr


def test_names_cannot_leave_the_folder_and_steer_a_terminal(one: Served, tmp_path: Path) -> None:
    names = ["../../x", "a/b", "..", "A", "a", "\u202eabc", "%41"]
    apply(one, "-f", str(write(tmp_path / "a", *(document("group", name) for name in names))))
    one.ok("export", str(tmp_path / "out"), "--kind", "group")
    folder = tmp_path / "out" / "groups"
    read = [yaml.safe_load(file.read_text())["name"] for file in folder.iterdir()]
    assert set(names) <= set(read)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "one", "out"]
    apply(one, "-f", str(tmp_path / "out"))
    evil = write(tmp_path / "b", document("guardrail", "x", connections=[], description="\x1b[2J\x1b]0;x\x07"))
    shown = one.cli("apply", "-f", str(evil), "--plan")
    assert "\\x1b[2J" in shown.stdout
    assert "\x1b[2J" not in shown.stdout


def test_export_touches_only_files_that_it_wrote(one: Served, tmp_path: Path) -> None:
    out = tmp_path / "out"
    one.ok("export", str(out), "--kind", "group")
    mine = out / "groups" / "mine.yaml"
    mine.write_text("kind: group\nname: mine\n")
    one.ok("admin", "groups", "create", "gone")
    one.ok("export", str(out), "--kind", "group")
    one.ok("admin", "groups", "delete", "gone", "--yes")
    one.ok("export", str(out), "--kind", "group")
    assert (out / "groups" / "gone.yaml").exists()
    one.ok("export", str(out), "--kind", "group", "--clean")
    assert not (out / "groups" / "gone.yaml").exists()
    assert mine.exists()
    one.ok("admin", "groups", "create", "mine")
    refused = one.cli("export", str(out))
    assert refused.exit_code == FAILED
    assert "was not written by an export" in refused.stderr
    mine.unlink()
    mine.symlink_to(tmp_path / "victim")
    assert "cannot be overwritten" in one.cli("export", str(out)).stderr
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "groups").symlink_to(tmp_path / "elsewhere")
    assert "does not follow symbolic links" in one.cli("export", str(tmp_path / "linked"), "--kind", "group").stderr
    assert not list((tmp_path / "elsewhere").iterdir())
    assert not (tmp_path / "victim").exists()


def test_standard_input_json_and_usage(one: Served, tmp_path: Path) -> None:
    text = json.dumps(document("group", "from stdin"))
    assert one.cli("apply", "-f", "-", stdin=text).exit_code == USAGE
    one.ok("apply", "-f", "-", "--yes", stdin=text)
    assert "name: from stdin" in one.ok("export", "-", "--kind", "group", "--manager", "apply").stdout
    for wrong in ([], ["-f", "x", "--exit-code"], ["-f", "x", "--fail-on-new-denials"], ["-f", "-", "-f", "-"]):
        assert one.cli("apply", *wrong).exit_code == USAGE
    assert one.cli("export", str(tmp_path / "x"), "--kind", "gruop").exit_code == USAGE


def test_pipeline_applies_with_an_api_key(one: Served, tmp_path: Path) -> None:
    key = one.json("admin", "api-keys", "create", "ci", "--group", "admin")["key"]
    kinds = ("group", "agent", "connection", "guardrail", "service-account")
    source = write(tmp_path / "a", *(document(kind) for kind in kinds), document("feature"))
    login = {"POSTERN_TOKEN": key, "POSTERN_API_URL": one.url, "XDG_CONFIG_HOME": str(tmp_path / "none")}
    arguments = ("apply", "-f", str(source), "--plan", "--exit-code")
    assert one.cli(*arguments, **login).exit_code == PENDING
    one.ok("apply", "-f", str(source), "--yes", **ENVIRONMENT, **login)
    assert one.cli(*arguments, **login).exit_code == 0
    other = write(tmp_path / "b", document("api-key"))
    refused = one.cli("apply", "-f", str(other), "--yes", **login)
    assert (refused.exit_code, "an API key cannot" in refused.stderr) == (DENIED, True)


def test_failure_stops_and_says_what_was_and_was_not_applied(one: Served, tmp_path: Path) -> None:
    broken = document("connection", subtype="cobol", secret={})
    broken["spec"]["type"], broken["spec"]["subtype"] = "application", "postgres"
    source = write(tmp_path / "a", document("agent"), broken, document("group"), document("organisation"))
    result = one.cli("apply", "-f", str(source), "--yes", "--json")
    assert result.exit_code == FAILED
    outcome = json.loads(result.stdout)
    assert {one["kind"] for one in outcome["applied"]} == {"agent", "group"}
    assert outcome["failed"]["name"] == "shop"
    assert [one["kind"] for one in outcome["not_applied"]] == ["organisation"]
    assert "2 applied, 1 not applied" in result.stderr


def test_schema_accepts_an_export_and_rejects_a_mistake(one: Served, tmp_path: Path) -> None:
    import jsonschema_rs

    prepare(one)
    apply(one, "-f", str(write(tmp_path / "source", *(document(kind) for kind in SAMPLES))))
    validator = jsonschema_rs.validator_for(json.loads(one.ok("apply", "--schema").stdout))
    one.ok("export", str(tmp_path / "out"))
    for text in files(tmp_path / "out").values():
        exported = yaml.safe_load(text)
        assert validator.is_valid(exported), (exported, [str(one)[:1000] for one in validator.iter_errors(exported)])
    assert not validator.is_valid(document("agent", mod="standard"))


def test_guardrail_is_simulated_before_it_is_applied(one: Served, tmp_path: Path) -> None:
    source = write(
        tmp_path / "a", document("agent"), document("connection"), document("guardrail"), document("masking-rule")
    )
    shown = plan(one, "-f", str(source), "--simulate", "7d")
    simulations = {change["kind"]: change["simulation"] for change in shown["changes"]}
    assert simulations["guardrail"]["new_denials"] == 0
    assert "cannot be simulated" in simulations["masking-rule"]["note"]
    apply(one, "-f", str(source), "--simulate", "7d", "--fail-on-new-denials")
    other = {"rules": [{"type": "deny_words_list", "words": ["drop", "truncate"]}]}
    changed = write(tmp_path / "b", document("guardrail", input=other))
    [change] = plan(one, "-f", str(changed), "--simulate", "7d")["changes"]
    assert (change["simulation"]["statements_read"], change["simulation"]["new_denials"]) == (0, 0)
    assert (
        "on 0 recorded statements: nothing" in one.ok("apply", "-f", str(changed), "--plan", "--simulate", "7d").stdout
    )


def test_new_denials_stop_the_apply(one: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path / "a", document("agent"), document("connection"), document("guardrail"))

    def run(_state: Any, _name: str, rail: dict[str, Any], _since: str) -> dict[str, Any]:
        return {"actions": {"deny": 3} if rail else {}, "statements_read": 9, "caveats": []}

    monkeypatch.setattr("postern.cli.configuration.simulation._run", run)
    stopped = one.cli("apply", "-f", str(source), "--yes", "--simulate", "7d", "--fail-on-new-denials", **ENVIRONMENT)
    assert stopped.exit_code == DENIED
    assert "3 more recorded statements" in stopped.stderr
    assert one.json("connections") == []


def test_others_cannot_apply_or_set_managers(one: Served, tmp_path: Path) -> None:
    prepare(one)
    kinds = ("agent", "connection", "runbook-repository")
    apply(one, "-f", str(write(tmp_path / "a", *(document(kind) for kind in kinds))))
    source = write(tmp_path / "b", document("group", "other"))
    one.log_in("ann@example.com")
    assert one.cli("apply", "-f", str(source), "--yes").exit_code == DENIED
    schedule = {"name": "own", "connection_name": "shop", "file_name": "pin.runbook.sql", "cron": "0 3 * * *"}
    body = {**schedule, "parameters": {"pin": "1"}}
    with client_of(one) as http:
        with pytest.raises(Denied, match="change what manages a resource"):
            http.call("POST", "/runbooks/schedules", body={**body, "managed_by": "mine"})
        assert http.call("POST", "/runbooks/schedules", body=body)["managed_by"] is None
