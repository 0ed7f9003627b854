"""What the settings say of repositories of runbooks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.integrations.git.conftest import repository
from tests.support.gits import Bare

from postern.errors import Invalid, Misconfigured
from postern.settings import load
from postern.wiring.app import git_fetcher

_SOURCE = str(Path(__file__).resolve().parents[2] / "src")


async def test_settings_say_where_repositories_may_be(tmp_path: Path) -> None:
    bare = Bare.made(tmp_path / "allowed/a.git")
    bare.commit({"a.runbook.sh": "a"})
    given = {"POSTERN_RUNBOOK_SCHEMES": "https, file", "POSTERN_RUNBOOK_FOLDERS": str(tmp_path / "allowed")}
    made = git_fetcher(load(given, home=tmp_path), {**os.environ, "PYTHONPATH": _SOURCE})
    assert (await made.fetch(repository(f"file://{bare.path}"))).commit == bare.head()
    with pytest.raises(Invalid, match="https://, file://"):
        await made.check(repository("ssh://git@github.com/a/b"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SCHEMES", "https,ext"),
        ("NETWORKS", "everywhere"),
        ("FOLDERS", "srv/git"),
        ("CA", "/nonexistent/ca.pem"),
        ("TIMEOUT", "-1"),
        ("SIZE", "-1"),
    ],
)
def test_wrong_settings_are_told_at_the_start(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(Misconfigured, match=f"POSTERN_RUNBOOK_{name}"):
        git_fetcher(load({f"POSTERN_RUNBOOK_{name}": value}, home=tmp_path), {})
