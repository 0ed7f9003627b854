from __future__ import annotations

import pytest

from postern.domain.secret import Secret
from postern.domain.targets.command import (
    MAX_ARGUMENTS,
    MAX_BYTES,
    Invocation,
    check_arguments,
    check_variables,
    decoded_variables,
    is_variable,
)
from postern.errors import Invalid


@pytest.mark.parametrize(
    "name", ["A", "_x", "MODE_2", "TOKEN", "AWS_REGION", "SRC", "TERM", "COLUMNS", "LANG", "PGAPPNAME"]
)
def test_what_a_client_may_set(name: str) -> None:
    assert is_variable(name)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            "1A",
            "A-B",
            "A=B",
            "A\n",
            "PATH",
            "LD_PRELOAD",
            "BASH_ENV",
            "BASH_FUNC_x",
            "PYTHONPATH",
            "POSTERN_USER_ID",
        ),
        *(
            "HOME",
            "PAGER",
            "PSQL_PAGER",
            "GIT_EDITOR",
            "LESSOPEN",
            "JDK_JAVA_OPTIONS",
            "_JAVA_OPTIONS",
            "NODE_PATH",
            "PS4",
        ),
        *("https_proxy", "PGHOSTADDR", "PGSERVICEFILE", "MYSQL_HOME", "AWS_ENDPOINT_URL", "SSL_CERT_FILE"),
    ],
)
def test_attack_a_variable_that_decides_which_code_runs(name: str) -> None:
    assert not is_variable(name)
    with pytest.raises(Invalid):
        check_variables({name: "x"})


@pytest.mark.parametrize("texts", [["x"] * (MAX_ARGUMENTS + 1), ["x" * (MAX_BYTES + 1)], ["a\0b"], ["\ud800"]])
def test_arguments_have_bounds(texts: list[str]) -> None:
    with pytest.raises(Invalid):
        check_arguments(texts)


def test_variables_are_given_as_secrets_are() -> None:
    assert decoded_variables({"envvar:A": "eA=="}) == {"A": Secret("x")}


@pytest.mark.parametrize("given", [{"A": "eA=="}, {"envvar:A": "planted?"}, {"envvar:A": "AA=="}, {"envvar:A": "/w=="}])
def test_variables_that_cannot_be_are_refused_without_their_values(given: dict[str, str]) -> None:
    with pytest.raises(Invalid) as caught:
        decoded_variables(given)
    assert "planted" not in caught.value.message


def test_an_invocation_that_adds_nothing() -> None:
    assert not Invocation()
    assert Invocation(("x",))
    assert Invocation(environment={"A": Secret("")})
