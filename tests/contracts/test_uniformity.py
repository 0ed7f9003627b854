"""What all resources have in common on the command line and in the OpenAPI document: one table over the real commands
and the real document. What differs is named here, with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click
import pytest
from tests.support.application import routed_once

from postern.cli.lazy import AliasGroup
from postern.cli.main import cli
from postern.cli.nouns import NOUNS, Noun
from postern.cli.row_commands import paging_options

# Resources that are not managed like the others.
OF_THEIR_OWN = {
    "admin orgs": "operators make and delete them, a deletion takes days, and only their own members change them, at "
    "/orgs/self",
}
# Resources that have neither PUT nor PATCH.
FIXED = {
    "admin agents": "name and mode are parts of its key, and a new key is asked for below it",
    "admin resources": "connections name it",
    "ssh-keys": "its name, its key and whose it is come with it",
}
NOT_CREATED = {"admin resources": "it comes with the first connection that names it"}
MOVED = [noun for noun in NOUNS if noun.command not in OF_THEIR_OWN]

# Writes of one thing that has no versions.
WITHOUT_VERSION = {
    "/chat/accounts/{id}": "it is only deleted",
    "/connections/{nameOrID}/credentials/{credential_id}": "it is only revoked",
    "/feature-flags/{name}": "it has one field, which each write sets",
    "/logins/{login_id}": "it is only ended",
    "/orgs/{org_id}": "it is only deleted, by its identifier and its name",
    "/retention/connections/{nameOrID}": "each write sets all fields, and takes effect a day later",
    "/reviews/{id}": "a decision names the state that it is about",
    "/resources/{nameOrID}": "it is only deleted",
    "/scim/v2/Groups/{id}": "SCIM has a protocol of its own",
    "/scim/v2/Users/{id}": "SCIM has a protocol of its own",
    "/sessions/{session_id}/holds/{nameOrID}": "it is set and released, and never changed",
    "/sshkeys/{nameOrID}": "it is only deleted",
    "/users/self/second-factors/{factor_id}": "it is only deleted",
}
NOT_PAGED = {
    "admin logs": "it follows a file",
    "profiles list": "they are a file of this machine",
    "reports sessions": "a report has a bounded number of lines",
    "runbooks list": "they are the files of a commit",
    "second-factor list": "a user has a few",
    "sessions search": "it goes on by --cursor alone",
}
WITHOUT_JSON = frozenset({"agent", "completion", "config example", "gateway", "run", "up"})  # they run or print a file
# Old words → hyphenated ones.
HYPHENATED = {
    "admin reviewrules": "admin review-rules",
    "admin runbookrules": "admin runbook-rules",
    "admin runbookrepos": "admin runbook-repositories",
    "admin issuetemplates": "admin issue-templates",
    "admin apikeys": "admin api-keys",
    "admin serviceaccounts": "admin service-accounts",
}
COMPLETED = frozenset({"--agent", "--connection", "--group", "--user"})
# Options of these names that stand for something else.
NOT_OURS = {
    "admin runbook-repositories create --user": "of a git server",
    "admin runbook-repositories update --user": "of a git server",
    "admin tracker set --user": "of a tracker",
    "doctor --agent": "it is a switch",
}


def commands(command: click.Command = cli, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command that help pages show, by its words."""
    if not isinstance(command, click.Group):
        yield " ".join(words), command
        return
    context = click.Context(command)
    for word in command.list_commands(context):
        below = command.get_command(context, word)
        assert below is not None
        yield from commands(below, (*words, word))


def options_of(command: click.Command) -> dict[str, click.Option]:
    return {flag: one for one in command.params if isinstance(one, click.Option) for flag in one.opts}


PATHS: dict[str, Any] = {
    path.removeprefix("/api"): methods for path, methods in routed_once().openapi()["paths"].items()
}
COMMANDS = dict(commands())
NOUN = pytest.mark.parametrize("noun", MOVED, ids=lambda noun: noun.command)


def parameters(operation: dict[str, Any], place: str) -> set[str]:
    return {one["name"] for one in operation.get("parameters", ()) if one["in"] == place}


def is_about_a_version(operation: dict[str, Any]) -> bool:
    return "If-Match" in parameters(operation, "header") and {"409", "412"} <= set(operation["responses"])


@NOUN
def test_routes_of_a_resource_are_as_those_of_all(noun: Noun) -> None:
    path = f"/{'/'.join(noun.path)}"
    assert {"limit", "offset", "name"} <= parameters(PATHS[path]["get"], "query")
    assert ("post" in PATHS[path]) == (noun.command not in NOT_CREATED)
    for status in PATHS[path].get("post", {}).get("responses", ()):
        assert status == "201" or not status.startswith("2")
    by_key = f"{path}/{{nameOrID}}"
    assert [one for one in PATHS if re.fullmatch(rf"{path}/\{{\w+\}}", one)] == [by_key]
    writes = ("delete",) if noun.command in FIXED else ("put", "patch", "delete")
    assert {method: is_about_a_version(one) for method, one in PATHS[by_key].items()} == {
        "get": False,
        **dict.fromkeys(writes, by_key not in WITHOUT_VERSION),
    }


def test_every_write_of_one_documents_the_version_that_it_is_about() -> None:
    assert {
        path
        for path, methods in PATHS.items()
        for method, operation in methods.items()
        if method in ("put", "patch", "delete") and path.endswith("}") and not is_about_a_version(operation)
    } == set(WITHOUT_VERSION)


def test_every_list_takes_the_same_options() -> None:
    @paging_options
    def like() -> None: ...

    wanted = {flag: one for one in like.__click_params__ for flag in one.opts}  # type: ignore[attr-defined]
    for name, command in COMMANDS.items():
        options = options_of(command)
        is_list = name.endswith(" list") or "--limit" in options
        if not is_list or name in NOT_PAGED:
            continue
        assert wanted.keys() <= options.keys(), name
        for flag, like_it in wanted.items():
            assert options[flag].type.to_info_dict() == like_it.type.to_info_dict(), f"{name} {flag}"
    assert all(name in COMMANDS for name in NOT_PAGED)


def test_every_command_prints_json() -> None:
    assert {name for name, command in COMMANDS.items() if "--json" not in options_of(command)} == WITHOUT_JSON


def test_every_option_and_argument_that_names_a_resource_completes() -> None:
    silent = [
        f"{name} {flag}"
        for name, command in COMMANDS.items()
        for flag, option in options_of(command).items()
        if flag in COMPLETED and option._custom_shell_complete is None
    ]
    assert sorted(silent) == sorted(NOT_OURS)
    silent = [
        name
        for name, command in COMMANDS.items()
        for one in command.params
        if isinstance(one, click.Argument) and one.name in ("key", "connection") and one._custom_shell_complete is None
    ]
    assert silent == []


def test_words_are_hyphenated_and_old_ones_are_hidden() -> None:
    groups = {name.rpartition(" ")[0] for name in COMMANDS}
    assert {"admin access-rules", *HYPHENATED.values()} <= groups
    assert not set(HYPHENATED) & groups
    admin = cli.get_command(click.Context(cli), "admin")
    assert isinstance(admin, AliasGroup)
    assert {f"admin {old}": f"admin {new}" for old, new in admin.aliases.items()} == HYPHENATED
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", word) for name in COMMANDS for word in name.split())
