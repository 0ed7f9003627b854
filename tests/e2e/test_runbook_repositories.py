"""A whole gateway that reads runbooks from a real git server over HTTPS, in the background and on request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.gits import Forge, forge
from tests.support.promises import PATIENT, wait_until
from tests.support.running import Gateway, started

pytestmark = pytest.mark.slow

REPOS = ("admin", "runbook-repositories")
HELLO = {"ops/hello.runbook.sh": "echo {{ .name }}\n", "readme.md": "no runbook"}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Forge]:
    with forge(tmp_path) as made:
        yield made


@pytest.fixture
def reader(served: Forge) -> Iterator[Gateway]:
    """Without its interval nobody would wait for the background to come round."""
    authority = str(served.authority)
    with started(RUNBOOK_NETWORKS="127.0.0.1,::1", RUNBOOK_CA=authority, RUNBOOK_INTERVAL="1") as made:
        yield made


def json_of(gateway: Gateway, *words: str) -> Any:
    done = gateway.run(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def away(request: Any) -> bool:
    request.plain(503, b"gone fishing")
    return True


def names(gateway: Gateway) -> list[str]:
    """Of all runbooks, whether they may be run somewhere or not: there is no connection."""
    found = json_of(gateway, "runbooks", "list", "--all")
    return [item["name"] for one in found["repositories"] for item in one["items"]]


def test_pushed_runbooks_are_listed_and_stay_listed_when_the_server_is_unavailable(
    reader: Gateway, served: Forge
) -> None:
    served.users["me"] = "secret-token"
    books = served.repository()
    first = books.commit(HELLO)
    url = f"{served.url}/team/runbooks.git"
    unread = reader.run(*REPOS, "create", url)
    assert (unread.returncode, "could not be read" in unread.stderr) == (0, True)
    assert reader.run(*REPOS, "refresh", url).returncode == 1
    changed = reader.run(*REPOS, "update", url, "--user", "me", "--password-file", "-", stdin="secret-token\n")
    assert (changed.returncode, first in changed.stdout) == (0, True), changed.stderr
    assert names(reader) == ["/ops/hello.runbook.sh"]
    books.commit({**HELLO, "new.runbook.sql": "select 1"})
    wait_until(lambda: "/new.runbook.sql" in names(reader), PATIENT)
    written = reader.run(*REPOS, "write", url, "/written.runbook.sh", "-", stdin="echo written\n")
    assert written.returncode == 0, written.stderr
    assert "/written.runbook.sh" in names(reader)
    assert books.text("written.runbook.sh") == "echo written"
    served.answer = away
    wait_until(lambda: json_of(reader, "runbooks", "list", "--all")["errors"] != [], PATIENT)
    assert len(names(reader)) == 3
    for secret in ("secret-token", "Authorization"):
        assert secret not in reader.log
