"""The variables that a declared command gets."""

from __future__ import annotations

import pytest

from postern.agent.exported_variables import select_exported
from postern.errors import Misconfigured

ENVIRON = {"DB_HOST": "h", "DB_PASS": "p", "OTHER": "o", "POSTERN_KEY": "grpcs://k", "postern_x": "y", "TERM": "xterm"}


def names(*patterns: str, **more: str) -> set[str]:
    return set(select_exported({**ENVIRON, **more}, patterns))


def test_variables_that_match_a_pattern_are_exported() -> None:
    assert {name: value.reveal() for name, value in select_exported(ENVIRON, ["DB_*"]).items()} == {
        "DB_HOST": "h",
        "DB_PASS": "p",
    }
    assert names("DB_HOST", "OTHE?") == {"DB_HOST", "OTHER"}
    assert names() == set()


def test_star_exports_everything_except_agent_and_terminal_variables() -> None:
    assert names("*") == {"DB_HOST", "DB_PASS", "OTHER"}


@pytest.mark.parametrize("pattern", ["POSTERN_KEY", "POSTERN_*", "postern_x", "P*KEY", "db_*", "NONE", ""])
def test_pattern_that_matches_no_variable_is_an_error(pattern: str) -> None:
    with pytest.raises(Misconfigured, match="--export") as caught:
        names("DB_*", pattern)
    assert "grpcs" not in caught.value.message


def test_variable_that_no_command_can_receive_is_skipped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    odd = {"BASH_FUNC_a%%": "() { :; }", "my.app": "planted", "LATIN": "\udce9"}
    assert names("*", **odd) == {"DB_HOST", "DB_PASS", "OTHER"}
    assert all(repr(name) in caplog.text for name in odd)
    assert "planted" not in caplog.text
