"""Which variables a declared command gets."""

from __future__ import annotations

import pytest

from postern.agent.exported_variables import select_exported
from postern.errors import Misconfigured

ENVIRON = {"DB_HOST": "h", "DB_PASS": "p", "OTHER": "o", "POSTERN_KEY": "grpcs://k", "postern_x": "y", "TERM": "xterm"}


def names(*patterns: str, **more: str) -> set[str]:
    return set(select_exported({**ENVIRON, **more}, patterns))


def test_what_fits_a_pattern_is_exported() -> None:
    assert {name: value.reveal() for name, value in select_exported(ENVIRON, ["DB_*"]).items()} == {
        "DB_HOST": "h",
        "DB_PASS": "p",
    }
    assert names("DB_HOST", "OTHE?") == {"DB_HOST", "OTHER"}
    assert names() == set()


def test_everything_is_everything_but_what_is_the_agents_own_and_the_terminals() -> None:
    assert names("*") == {"DB_HOST", "DB_PASS", "OTHER"}


@pytest.mark.parametrize("pattern", ["POSTERN_KEY", "POSTERN_*", "postern_x", "P*KEY", "db_*", "NONE", ""])
def test_a_pattern_that_nothing_fits_is_an_error(pattern: str) -> None:
    with pytest.raises(Misconfigured, match="--export") as caught:
        names("DB_*", pattern)
    assert "grpcs" not in caught.value.message


def test_what_no_command_can_be_given_is_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    odd = {"BASH_FUNC_a%%": "() { :; }", "my.app": "planted", "LATIN": "\udce9"}
    assert names("*", **odd) == {"DB_HOST", "DB_PASS", "OTHER"}
    assert all(repr(name) in caplog.text for name in odd)
    assert "planted" not in caplog.text
