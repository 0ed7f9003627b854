"""`postern runbooks` and `postern admin runbook-repositories`, against the real API over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.runbooks import NAME, URL
from tests.support.served import ANN, Served

from postern.domain.runbook import repository_id
from postern.domain.secret import Secret
from postern.errors import Unavailable

pytestmark = pytest.mark.ci

REPOS = ("admin", "runbook-repositories")
TEXT = 'echo {{ .name | required "say who" | description "whom to greet" }}\n'


@pytest.fixture
def root(gate: Served) -> Served:
    gate.log_in()
    gate.run(gate.world.add_connection("shop"))
    gate.world.fetcher.put({"ops/hello.runbook.sh": TEXT, "bad.runbook.sh": "{{ end }}"})
    return gate


def secrets_of(served: Served) -> list[str]:
    found = served.run(served.world.stores.runbook_repositories.get(served.world.org_id, str(repository_id(URL))))
    assert found is not None
    assert isinstance(found.git_password, Secret)
    return [found.git_password.reveal(), found.ssh_key.reveal(), found.ssh_keypass.reveal(), found.ssh_known_hosts]


def test_secrets_of_repositories_are_read_from_files_and_never_shown(root: Served, tmp_path: Path) -> None:
    assert "There are no runbook repositories" in root.ok(*REPOS, "list").stderr
    key, hosts = tmp_path / "key", tmp_path / "hosts"
    key.write_text("-----BEGIN KEY-----\nplanted\n-----END KEY-----\n")
    hosts.write_text("git.example.com ssh-ed25519 AAAA\n")
    files = ("--key-file", str(key), "--known-hosts-file", str(hosts), "--password-file", "-")
    made = root.ok(*REPOS, "create", URL, *files, "--user", "me", "--hooks", "60", stdin="planted\n")
    assert f"Added {NAME}. It is at " in made.stdout
    assert secrets_of(root) == ["planted", key.read_text(), "", hosts.read_text()]
    (shown,) = root.json(*REPOS, "list")
    assert (shown["git_user"], shown["git_hook_ttl"], shown["error"]) == ("me", 60, "")
    assert "planted" not in root.ok(*REPOS, "show", NAME).stdout
    changed = root.json(*REPOS, "update", NAME, "--branch", "next", "--no-key", "--hooks", "0")
    assert (changed["git_branch"], changed["git_hook_ttl"], changed["git_user"]) == ("next", 0, "me")
    assert secrets_of(root) == ["planted", "", "", hosts.read_text()]
    assert root.cli(*REPOS, "refresh", "no such").exit_code == 5


def test_what_could_not_be_read_is_told_as_that(root: Served) -> None:
    made = root.world.fetcher.remotes[URL]
    root.world.fetcher.remotes[URL] = Unavailable("it is away")
    why = f"postern: {NAME} could not be read: it is away\n"
    added = root.ok(*REPOS, "create", URL)
    assert added.stdout == f"Added {NAME}. It could not be read: none of its runbooks are shown yet.\n"
    assert added.stderr == why
    failed = root.cli(*REPOS, "refresh", NAME)
    assert (failed.exit_code, failed.stderr) == (1, why)
    assert failed.stdout == f"{NAME} could not be read: none of its runbooks are shown yet.\n"
    root.world.fetcher.remotes[URL] = made
    commit = root.json(*REPOS, "refresh", NAME)["commit"]
    assert root.ok(*REPOS, "refresh", NAME).stdout == f"Read {NAME}. It is at commit {commit}.\n"
    root.world.fetcher.remotes[URL] = Unavailable("it is away")
    failed = root.cli(*REPOS, "refresh", NAME)
    assert failed.stdout == f"{NAME} could not be read: runbooks of the last successful read stay, at {commit}.\n"
    failed = root.cli(*REPOS, "refresh", NAME, "--json")
    assert (failed.exit_code, json.loads(failed.stdout)["error"]) == (1, "it is away")
    changed = root.ok(*REPOS, "update", NAME, "--branch", "next")
    assert changed.stdout == f"Changed {NAME}. It could not be read: none of its runbooks are shown yet.\n"
    assert changed.stderr == why


def test_a_secret_is_no_argument(root: Served) -> None:
    assert root.cli(*REPOS, "create", URL, "--password", "planted").exit_code == 2
    both = root.cli(*REPOS, "create", URL, "--password-file", "-", "--key-file", "-", stdin="planted")
    assert (both.exit_code, "only one" in both.stderr, "planted" in both.output) == (2, True, False)


def test_a_runbook_is_written_from_a_file(root: Served) -> None:
    root.ok(*REPOS, "create", URL)
    made = root.ok(*REPOS, "write", NAME, "new.runbook.sh", "-", "--message", "why", stdin="echo new\n")
    assert made.stdout.startswith("Committed new.runbook.sh as ")
    assert root.json("runbooks", "show", "new.runbook.sh")["text"] == "echo new\n"
    again = root.cli(*REPOS, "write", NAME, "new.runbook.sh", "-", stdin="echo")
    assert (again.exit_code != 0, "is there already" in again.stderr) == (True, True)


def test_runbooks_are_listed_and_shown(root: Served) -> None:
    root.ok(*REPOS, "create", URL)
    root.log_in(ANN)
    other = "https://git.example.com/away"
    lines = root.ok("runbooks", "list").stdout.splitlines()
    assert lines[0].startswith(f"/bad.runbook.sh\t{NAME}\tshop\t-\tline 1, column ")
    assert lines[1].split("\t") == ["/ops/hello.runbook.sh", NAME, "shop", "name", ""]
    assert "no runbooks that you can run" in root.ok("runbooks", "list", "--connection", "nowhere").stderr
    name = lines[0].split("\t")[0]
    assert root.ok("runbooks", "list", "--search", name.upper()).stdout.splitlines() == lines[:1]
    assert len(root.ok("runbooks", "list", "--connection", "nowhere", "--all").stdout.splitlines()) == 2
    shown = root.ok("runbooks", "show", "ops/hello.runbook.sh").stdout
    assert "name\ttext\trequired\t-\t\twhom to greet" in shown
    assert shown.endswith(TEXT)
    broken = root.cli("runbooks", "show", "/bad.runbook.sh", "--repository", NAME)
    assert (broken.exit_code, "this runbook is invalid: line 1" in broken.stderr) == (1, True)
    assert root.cli("runbooks", "show", "no-such").exit_code == 5
    assert root.json("runbooks", "list")["errors"] == []
    root.log_in()
    root.ok(*REPOS, "create", other)  # which cannot be read
    listed = root.ok("runbooks", "list")
    assert "postern: git.example.com/away: nothing answers there" in listed.stderr
    assert len(listed.stdout.splitlines()) == 2
