"""`postern connections` against a real gateway's API."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from tests.support.served import Served
from tests.support.target_tasks import answer_target_tasks

from postern.cli.client_certificate_files import write_certificate_files
from postern.domain.targets.agent import AgentMode
from postern.domain.targets.connection import ConnectionType
from postern.domain.targets.target_task import Failure, TargetTaskAnswer, TargetTaskKind

pytestmark = pytest.mark.ci

TARGET = {"envvar:HOST": "ZGIuZXhhbXBsZQ==", "envvar:USER": "YXBw"}


@pytest.fixture
def known(gate: Served) -> Served:
    """Logged in, with an agent and two connections."""
    gate.log_in()
    agent = gate.run(gate.world.add_agent("edge"))
    gate.run(gate.world.add_connection("shop", agent=agent, connection_tags={"env": "prod"}))
    gone = gate.run(gate.world.add_agent("gone"))
    gate.world.clock.forward(seconds=60)
    gate.run(gate.world.stores.agents.mark_seen([agent.id], gate.world.clock()))
    gate.run(gate.world.add_connection("store", agent=gone, resource_name="warehouse"))
    return gate


@pytest.fixture
def console(known: Served) -> Served:
    """With a connection that runs a command, whose secrets may have any name."""
    agent = known.run(known.world.add_agent("beside"))
    fields = {"type": ConnectionType.CUSTOM, "subtype": "", "command": ("irb",), "secret": {}}
    known.run(known.world.add_connection("console", agent=agent, **fields))
    return known


def stored(gate: Served, name: str) -> dict[str, str]:
    found = gate.run(gate.world.stores.connections.get(gate.world.org_id, name))
    assert found is not None
    return {key: value.reveal() for key, value in found.secret.items()}


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("--tag", "env=prod"), ["shop"]),
        (("--tag", "!env"), ["store"]),
        (("--tag", "env", "--tag", "env!=prod"), []),
        (("--status", "online"), ["shop"]),
        (("--status", "offline"), ["store"]),
        (("--search", "WARE"), ["store"]),
        (("--resource", "warehouse"), ["store"]),
        (("--agent", "edge"), ["shop"]),
        (("--type", "custom"), []),
    ],
)
def test_lists_are_filtered(known: Served, arguments: tuple[str, ...], names: list[str]) -> None:
    assert [one["name"] for one in known.json("connections", "list", *arguments)] == names


def test_uses_lists_what_the_caller_can_do(known: Served) -> None:
    known.ok("connections", "update", "shop", "--set", "reviewers=dba", "--set", "description=orders of the shop")
    known.ok("connections", "update", "store", "--set", "access_mode_exec=disabled")
    lines = [line.split("\t") for line in known.ok("connections", "uses").stdout.splitlines()]
    assert lines[0] == ["shop", "review", "review", "review", "yes", "-", "0", "orders of the shop"]
    assert lines[1][:5] == ["store", "yes", "no", "yes", "yes"]
    (shop,) = known.json("connections", "uses", "--search", "ORDERS")
    assert shop["access"]["uses"]["exec"]["reason"].startswith("connection 'shop' needs a review")
    known.ok("connections", "update", "shop", "--unset", "reviewers", "--unset", "description")
    assert known.json("connections", "show", "shop")["description"] == ""


def test_single_fields_are_set_and_emptied(known: Served) -> None:
    known.ok("connections", "update", "shop", "--set", "access_max_duration=60", "--set", "reviewers=a, b")
    shown = known.json("connections", "show", "shop")
    assert (shown["access_max_duration"], shown["reviewers"]) == (60, ["a", "b"])
    known.ok("connections", "update", "shop", "--unset", "access_max_duration", "--unset", "reviewers")
    shown = known.json("connections", "show", "shop")
    assert (shown["access_max_duration"], shown["reviewers"]) == (None, [])
    known.ok("connections", "update", "shop", "--tag", "team=a", "--untag", "env", "--set", "resource_name=2024")
    shown = known.json("connections", "show", "shop")
    assert (shown["connection_tags"], shown["resource_name"]) == ({"team": "a"}, "2024")


def written(way: str, name: str, fields: dict[str, Any]) -> tuple[str, ...]:
    """Return the command that writes the fields of redaction to a connection in one of the ways there are."""
    settings = [part for key, value in fields.items() for part in ("--set", f"{key}={json.dumps(value)}")]
    if way == "update":
        return ("connections", "update", name, *settings)
    agent = "edge"
    if way == "create":
        types = [part for one in fields["redact_types"] for part in ("--redact", one)]
        return ("connections", "create", name, "--agent", agent, "--env", "HOST=db", "--env", "USER=app", *types)
    raise AssertionError(way)


TYPES = {"redact_types": ["EMAIL_ADDRESS"]}


@pytest.mark.parametrize("before", [TYPES, {}], ids=["with types", "with the usual types"])
@pytest.mark.parametrize("way", ["--unset", "--set"])
def test_removing_all_types_switches_masking_off_and_says_so(known: Served, way: str, before: dict[str, Any]) -> None:
    known.ok(*written("update", "shop", before | {"redact_enabled": True}))
    known.ok("masking", "create", "people", "--preset", "recommended", "--connection", "shop")
    removal = {
        "--unset": ("connections", "update", "shop", "--unset", "redact_types"),
        "--set": ("connections", "update", "shop", "--set", "redact_types="),
    }
    done = known.ok(*removal[way])
    shown = known.json("connections", "show", "shop")
    assert (shown["redact_enabled"], shown["redact_types"]) == (False, [])
    assert done.stderr == (
        "postern: shop: information types are no longer masked; masking rules still apply (`postern masking` lists "
        "them)\n"
    )


def test_masking_can_be_kept_on_without_types(known: Served) -> None:
    known.ok("connections", "update", "shop", "--set", "redact_types=EMAIL_ADDRESS")
    done = known.ok("connections", "update", "shop", "--unset", "redact_types", "--set", "redact_enabled=true")
    assert known.json("connections", "show", "shop")["redact_enabled"] is True
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("way", "name", "fields", "enabled"),
    [
        ("create", "new", TYPES, True),
        ("update", "shop", TYPES, True),
        ("update", "shop", TYPES | {"redact_enabled": True}, True),
        ("update", "shop", TYPES | {"redact_enabled": False}, False),
    ],
)
def test_every_way_to_write_types_masks_or_warns(
    known: Served, way: str, name: str, fields: dict[str, Any], enabled: bool
) -> None:
    edge = known.run(known.world.stores.agents.get(known.world.org_id, "edge"))
    known.run(known.world.add_connection("typed", agent=edge, redact_types=("EMAIL_ADDRESS",)))  # as older versions did
    done = known.cli(*written(way, name, fields))
    assert done.exit_code == 0, done.stderr
    assert known.json("connections", "show", name)["redact_enabled"] is enabled
    assert ("so these types are not masked" in done.stderr) is not enabled
    assert ("so these types are not masked" in known.cli("connections", "show", name).stdout) is not enabled


def test_secrets_are_set_one_by_one(known: Served) -> None:
    known.ok("connections", "update", "shop", "--env", "PASS=hunter2", "--unset-env", "DB")
    assert stored(known, "shop") == TARGET | {"envvar:PASS": "aHVudGVyMg=="}
    refused = known.cli("connections", "update", "shop", "--unset-env", "DB")
    assert refused.exit_code == 5
    assert "the connection has no secret 'envvar:DB'; it has envvar:HOST, envvar:PASS, envvar:USER" in refused.stderr


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_values_come_from_everywhere(known: Served, tmp_path: Path) -> None:
    (tmp_path / "word").write_bytes(b"from a file\n")
    (tmp_path / "key").write_bytes(b"\x00\xff\n")
    known.run(known.world.add_agent("away", AgentMode.STANDARD))
    made = known.ok(
        *("connections", "create", "orders", "--agent", "away", "--command", "irb"),
        *("--env", "HOST=db.example", "--env", "EMPTY=", "--env", "PASS", "--env", "TOKEN=-", "--env", "API_KEY=-"),
        *("--env", f"WORD=file://{tmp_path / 'word'}", "--env", "B=base64://LQ==", "--env", "UNDER=_x"),
        *("--env", "VAULT_PASS=_vaultkv2:kv/shop:pass", "--env", "ARN=_aws:arn:aws:sm:eu:1:secret:a:pass"),
        *("--secret-file", f"KEY={tmp_path / 'key'}", "--secret-file", "CERT=_envjson:SHOP:cert"),
        stdin="_aws:not:one\nsecond\n",
        PASS="_gcp:neither:",
    )
    assert "Warning" not in made.stderr
    assert stored(known, "orders") == {
        "envvar:HOST": encoded(b"db.example"),
        "envvar:EMPTY": "",
        "envvar:PASS": encoded(b"_gcp:neither:"),
        "envvar:TOKEN": encoded(b"_aws:not:one"),
        "envvar:API_KEY": encoded(b"second"),
        "envvar:WORD": encoded(b"from a file"),
        "envvar:B": encoded(b"-"),
        "envvar:UNDER": encoded(b"_x"),
        "envvar:VAULT_PASS": "_vaultkv2:kv/shop:pass",
        "envvar:ARN": "_aws:arn:aws:sm:eu:1:secret:a:pass",
        "filesystem:KEY": encoded(b"\x00\xff\n"),
        "filesystem:CERT": "_envjson:SHOP:cert",
    }


def test_a_key_of_several_lines_is_one_answer(console: Served) -> None:
    key = "-----BEGIN PRIVATE KEY-----\nbGluZQ==\n-----END PRIVATE KEY-----\n"
    console.ok("connections", "update", "console", "--env", "K=-", "--env", "PASS=-", stdin=f"{key}word\n")
    found = stored(console, "console")
    assert (found["envvar:K"], found["envvar:PASS"]) == (encoded(key.encode()), encoded(b"word"))
    console.ok("connections", "update", "console", "--unset-env", "K", "--unset-env", "PASS")


def test_a_name_is_a_variable_or_a_file_and_the_last_word_counts(known: Served) -> None:
    known.ok("connections", "update", "shop", "--secret-file", "DB=-", stdin="content\n")
    assert stored(known, "shop")["filesystem:DB"] == encoded(b"content\n")
    known.ok("connections", "update", "shop", "--env", "DB=shop", "--secret-file", "SSLROOTCERT=base64://eA==")
    assert stored(known, "shop") == TARGET | {
        "envvar:DB": encoded(b"shop"),
        "filesystem:SSLROOTCERT": encoded(b"x"),
    }
    known.ok("connections", "update", "shop", "--unset-env", "SSLROOTCERT", "--unset-env", "DB")
    assert stored(known, "shop") == TARGET


@pytest.mark.parametrize("name", ["PASS", "DB_PASSWORD", "TOKEN", "api_key"])
@pytest.mark.parametrize("value", ["hunter2", "base64://aHVudGVyMg=="])
def test_a_password_in_clear_is_warned_of(console: Served, name: str, value: str) -> None:
    done = console.ok("connections", "update", "console", "--env", f"{name}={value}", "--env", "KEYBOARD=qwerty")
    assert f"--env {name}=- prompts for it" in done.stderr
    assert done.stderr.count("Warning") == 1
    assert stored(console, "console")[f"envvar:{name}"] == encoded(b"hunter2")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--env", "hunter 2"), "--env: write it as KEY=VALUE or KEY"),
        (("--env", "hunter-2=x"), "--env: write it as KEY=VALUE or KEY"),
        (("--env", "NO_SUCH_VARIABLE"), "set the environment variable NO_SUCH_VARIABLE"),
        (("--env", "PASS=_hunter2:x:y"), "PASS=- or PASS=base64://"),
        (("--env", "PASS=_vaultkv2:hunter2"), "must have the form _vaultkv2:PATH:KEY"),
        (("--env", "PASS=base64://hunter2"), "is not base64"),
        (("--env", "PASS=file:///no/hunter2"), "the file cannot be read: No such file"),
        (("--env", "PASS=a", "--secret-file", "PASS=b"), "PASS is given twice"),
        (("--secret-file", "hunter2"), "--secret-file: write it as KEY=PATH"),
        (("--secret-file", "KEY=/dev/zero"), "larger than 1048576 bytes"),
        (("--secret-file", "KEY=-", "--env", "PASS=-"), "no other option can read it"),
    ],
)
def test_attack_what_was_mistyped_is_not_shown(known: Served, arguments: tuple[str, ...], says: str) -> None:
    refused = known.cli("connections", "update", "shop", *arguments)
    assert (refused.exit_code, says in refused.stderr) == (2, True), refused.stderr
    assert "hunter" not in refused.output


def test_at_a_terminal_a_password_is_asked_for_without_being_shown(known: Served) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "postern", "connections", "update", "shop", "--env", "PASS=-"],
        env={**os.environ, **known.environment},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # getpass asks the controlling terminal
    ) as process:
        os.close(theirs)
        shown = b""
        while b"PASS: " not in shown:
            shown += os.read(ours, 4096)
        os.write(ours, b"hunter2\n")
        while b"Changed shop" not in shown:
            shown += os.read(ours, 4096)
        assert process.wait(60) == 0
    os.close(ours)
    assert b"hunter2" not in shown
    assert stored(known, "shop")["envvar:PASS"] == encoded(b"hunter2")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "nothing to change"),
        (("--set", "x"), "write it as FIELD=VALUE"),
        (("--set", "secret={}"), "use --env"),
        (("--unset", "name"), "cannot be cleared; these fields can: command"),
    ],
)
def test_a_change_that_says_nothing_is_refused(known: Served, arguments: tuple[str, ...], says: str) -> None:
    refused = known.cli("connections", "update", "shop", *arguments)
    assert (refused.exit_code, says in refused.stderr) == (2, True), refused.stderr


def test_a_command_that_the_gateways_own_agent_will_not_run_is_warned_of_at_once(known: Served) -> None:
    known.run(known.world.add_agent("away", AgentMode.STANDARD))
    known.run(known.world.add_agent("own", AgentMode.GATEWAY))
    made = known.ok("connections", "create", "shell", "--command", "bash", "--agent", "own", "--json")
    assert "shell cannot be used yet" in made.stderr
    assert "postern connections update shell --agent NAME" in made.stderr
    assert "POSTERN_GATEWAY_COMMANDS" in made.stderr
    assert json.loads(made.stdout)["name"] == "shell"
    assert "Warning" not in known.ok("connections", "update", "shell", "--agent", "away").stderr
    assert "Warning" not in known.ok("connections", "update", "shell", "--set", "command=sh").stderr
    assert "Warning" in known.ok("connections", "update", "shell", "--agent", "own").stderr
    assert "Warning" not in known.ok("connections", "update", "shell", "--tag", "a=b").stderr
    made = known.ok("connections", "create", "orders", "--agent", "own", "--env", "HOST=db", "--env", "USER=app")
    assert "Warning" not in made.stderr  # no command


def test_web_terminal_and_its_fresh_factor_are_switched(known: Served) -> None:
    names = ("access_mode_web_terminal", "access_fresh_factor")
    made = known.json("connections", "create", "shell", "--command", "bash", "--agent", "edge", "--web-terminal")
    assert [made[name] for name in names] == ["enabled", "disabled"]
    changed = known.json("connections", "update", "shell", "--no-web-terminal", "--fresh-factor")
    assert [changed[name] for name in names] == ["disabled", "enabled"]


def test_resources_are_listed_and_deleted_when_they_are_empty(known: Served) -> None:
    assert [one["name"] for one in known.json("admin", "resources", "list")["data"]] == ["shop", "warehouse"]
    assert "store" in known.ok("admin", "resources", "show", "warehouse").stdout
    refused = known.cli("admin", "resources", "delete", "warehouse", "--yes")
    assert "has 1 connection: store" in refused.stderr
    known.ok("connections", "update", "store", "--unset", "resource_name")
    known.ok("admin", "resources", "delete", "warehouse", "--yes")
    assert [one["name"] for one in known.json("admin", "resources", "list")["data"]] == ["shop", "store"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--env", "HOST=db", "--env", "USER=app", "--env", "PASSWORD=x"), "no key 'PASSWORD' (did you mean PASS?)"),
        (("--env", "USER=app", "--env", "DB=shop"), "needs HOST; give --env HOST="),
        ((), "needs HOST and USER"),
        (("--subtype", "mariadb", "--env", "USER=app"), "subtype 'mysql' needs HOST"),
        (
            ("--subtype", "ssh", "--env", "HOST=web", "--env", "USER=a", "--env", "PRIVATEKEY=x"),
            "did you mean PRIVATE_KEY?",
        ),
    ],
)
def test_create_refuses_keys_that_the_subtype_does_not_take(
    known: Served, arguments: tuple[str, ...], says: str
) -> None:
    refused = known.cli("connections", "create", "orders", "--agent", "edge", *arguments)
    assert (refused.exit_code, says in refused.stderr) == (1, True), refused.stderr
    assert known.cli("connections", "show", "orders").exit_code == 5


@pytest.mark.parametrize(("alias", "stored_as"), [("postgresql", "postgres"), ("mariadb", "mysql")])
def test_aliases_of_subtypes_are_accepted(known: Served, alias: str, stored_as: str) -> None:
    target = ("--env", "HOST=db", "--env", "USER=app")
    made = known.json("connections", "create", "orders", "--agent", "edge", "--subtype", alias, *target)
    assert (made["type"], made["subtype"]) == ("database", stored_as)
    assert [one["name"] for one in known.json("connections", "list", "--subtype", alias)] == (
        ["orders"] if alias == "mariadb" else ["orders", "shop", "store"]
    )


def test_target_agent_and_last_test_are_shown(known: Served) -> None:
    shown = known.ok("connections", "show", "shop").stdout
    shown = " ".join(shown.split())
    assert "agent_name edge" in shown
    assert "target HOST=db.example, PORT=5432, USER=app, DB=shop" in shown
    assert "target_status untested" in shown
    listed = known.ok("connections", "list", "--agent", "edge").stdout
    assert listed == "shop\tpostgres\tonline\tenv=prod\tedge\tuntested\tdb.example:5432\n"


@pytest.mark.parametrize(
    ("failure", "code", "reason"),
    [
        (Failure.AWAY, 6, "the target at db.example:5432 cannot be reached"),
        (Failure.FAILED, 1, "the target of 'shop' refused: no such role"),
    ],
)
def test_exit_code_of_a_test_tells_an_absent_target_from_one_that_refuses(
    known: Served, failure: Failure, code: int, reason: str
) -> None:
    answer = TargetTaskAnswer({}, failure=failure, reason=reason)
    answer_target_tasks(known.world, known.services.target_tasks, {TargetTaskKind.TEST: answer})
    tested = known.cli("connections", "test", "shop")
    assert (tested.exit_code, reason in tested.stderr) == (code, True), tested.stderr
    assert "\tfailed 20" in known.ok("connections", "list", "--agent", "edge").stdout
    assert reason in known.ok("connections", "show", "shop").stdout


def test_agent_id_accepts_the_name_of_an_agent(known: Served, tmp_path: Path) -> None:
    edge = known.json("connections", "show", "shop")["agent_id"]
    moved = known.json("connections", "update", "store", "--set", "agent_id=edge")
    assert (moved["agent_id"], moved["agent_name"]) == (edge, "edge")
    assert known.cli("connections", "update", "store", "--set", "agent_id=none").exit_code == 5


def test_credentials_list_tells_valid_expired_and_revoked_apart(known: Served) -> None:
    kept, ended, over = (known.json("credentials", "issue", "shop", *more) for more in ((), (), ("--hours", "1")))
    known.ok("credentials", "revoke", "shop", ended["id"])
    known.world.clock.forward(seconds=3601)
    lines = known.ok("credentials", "list", "shop").stdout.splitlines()
    states = {line.split("\t")[0]: line.split("\t")[-1] for line in lines}
    assert states == {kept["id"]: "valid", ended["id"]: "revoked", over["id"]: "expired"}


def test_own_credentials_need_no_connection(known: Served) -> None:
    issued = known.json("credentials", "issue", "store")
    line = next(line for line in known.ok("credentials", "list").stdout.splitlines() if line.startswith(issued["id"]))
    assert line.split("\t")[-2:] == ["valid", "store"]
    known.ok("credentials", "revoke", issued["id"])
    states = {one["id"]: one["status"] for one in known.json("credentials", "list")}
    assert states[issued["id"]] == "revoked"
    assert known.cli("credentials", "revoke", "store", issued["id"], "more").exit_code == 2
    assert known.cli("credentials", "revoke", "0d5b6a58-0f2b-4b4e-9a3c-0d2a5e3f7c11").exit_code == 5


@pytest.fixture
def cache(known: Served) -> Served:
    """With a TCP service, and a listener for its clients."""
    known.services.credentials._enforceable |= {"tcp"}
    agent = known.run(known.world.add_agent("near"))
    fields = {"type": ConnectionType.APPLICATION, "subtype": "tcp"}
    known.run(known.world.add_connection("cache", agent=agent, **fields))
    return known


@pytest.mark.parametrize(
    "command", [("connect", "cache", "--native"), ("credentials", "issue", "cache")], ids=["connect", "issue"]
)
def test_client_certificate_is_written_to_private_files(
    cache: Served, tmp_path: Path, command: tuple[str, ...]
) -> None:
    folder = tmp_path / "new" / "folder"
    for _ in range(2):  # the second replaces the first
        done = cache.ok(*command, "--folder", str(folder))
    assert folder.stat().st_mode & 0o777 == 0o700
    names = {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}
    assert names == {"cache.crt": 0o600, "cache.key": 0o600}
    assert (folder / "cache.key").read_text().startswith("-----BEGIN PRIVATE KEY-----")
    assert str(folder / "cache.key") in done.stdout
    assert "PRIVATE" not in done.stdout


def test_connect_prints_a_line_for_each_client_or_the_chosen_one(cache: Served, tmp_path: Path) -> None:
    folder = ("--folder", str(tmp_path))
    lines = cache.ok("connect", "cache", "--native", *folder).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["openssl", "redis-cli", "curl", "socat"]
    chosen = cache.ok("connect", "cache", "--native", "--format", "redis-cli", *folder).stdout
    files = f"--cert {tmp_path / 'cache.crt'} --key {tmp_path / 'cache.key'}"
    assert chosen.startswith(f"redis-cli -h localhost -p 7460 --tls {files} --cacert /")
    issued = cache.json("connect", "cache", "--native", *folder)
    assert issued["client_certificate"]["private_key"] == (tmp_path / "cache.key").read_text()
    assert issued["lines"][1]["text"] == chosen.strip()


def test_authority_of_the_gateway_is_written_beside_the_certificate(tmp_path: Path) -> None:
    certificate = {
        "certificate_file": "cache.crt",
        "certificate": "CERTIFICATE",
        "key_file": "cache.key",
        "private_key": "KEY",
    }
    identity = {"ca_file": "postern-ca.crt", "ca_certificate": "CA"}
    files = write_certificate_files({"client_certificate": certificate, "gateway_identity": identity}, tmp_path)
    assert files.authority == tmp_path / "postern-ca.crt"
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "cache.crt": "CERTIFICATE",
        "cache.key": "KEY",
        "postern-ca.crt": "CA",
    }


def test_folder_is_for_certificates_only(cache: Served, tmp_path: Path) -> None:
    for arguments in (("connect", "shop", "--native"), ("connect", "cache")):
        done = cache.cli(*arguments, "--folder", str(tmp_path / "none"))
        assert (done.exit_code, "--folder is only for --native with TCP services" in done.stderr) == (2, True)
    taken = tmp_path / "taken"
    taken.write_text("")
    done = cache.cli("connect", "cache", "--native", "--folder", str(taken / "below"))
    assert "could not be written" in done.stderr
