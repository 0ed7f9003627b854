"""`postern admin runbook-rules`: which groups can run which runbooks where."""

from __future__ import annotations

from collections.abc import Sequence

from postern.cli.nouns import CONNECTION, GROUP, RUNBOOK_RULE
from postern.cli.resource_group import DESCRIPTION, Field, ResourceCommands, new_name, resource_group
from postern.client.client_shapes import Row


def _patterns(texts: Sequence[str]) -> list[Row]:
    return [_pattern(text) for text in texts]


def _pattern(text: str) -> Row:
    """Split at the last `//`; the slashes after the scheme of an address do not count."""
    repository, slashes, name = text.rpartition("//")
    parted = slashes and not repository.endswith(":")
    return {"repository": repository, "name": name} if parted else {"repository": text, "name": ""}


def _readable(rule: Row) -> Row:
    runbooks = [
        f"{pattern['repository']}//{pattern['name']}" if pattern["name"] else pattern["repository"]
        for pattern in rule["runbooks"]
    ]
    empty = "none: all were deleted" if rule["nowhere"] else "all"
    return {
        **rule,
        "runbooks": runbooks,
        "connections": rule["connections"] or empty,
        "user_groups": rule["user_groups"] or "all",
    }


runbook_rules = resource_group(
    ResourceCommands(
        noun=RUNBOOK_RULE,
        help="""Choose which groups can run which runbooks on which connections.

        Without rules, every user can run every runbook on the connections that they can use. Once a rule exists,
        only administrators can run runbooks that no rule allows. PATH is a prefix: `deploy/` matches the files of a
        folder; `deploy` also matches `deploy-all`.

        \b
        postern admin runbook-rules create deploys --runbook github.com/acme/ops//deploy/ --connection shop --group dev
        postern admin runbook-rules create for-all --runbook github.com/acme/tools
        postern admin runbook-rules update deploys --no-connections
        """,
        columns=[
            ("name", "name"),
            ("runbooks", "runbooks"),
            ("connections", "connections"),
            ("groups", "user_groups"),
            ("description", "description"),
        ],
        options=[
            new_name(),
            DESCRIPTION,
            Field(
                "--runbook",
                "runbooks",
                "Runbooks of a repository whose path begins with PATH; without a path, all of them.",
                many=True,
                metavar="REPOSITORY[//PATH]",
                read=_patterns,
            ),
            Field(
                "--connection",
                "connections",
                "Connection on which they can run.",
                many=True,
                completes=CONNECTION,
                clear=("--no-connections", "Let them run on every connection.", []),
            ),
            Field(
                "--group",
                "user_groups",
                "A group whose members can run them.",
                many=True,
                completes=GROUP,
                clear=("--no-groups", "Let every user run them.", []),
            ),
        ],
        defaults={"runbooks": [], "connections": [], "user_groups": []},
        says={
            "create": "Create a runbook rule. Without --connection it covers every connection, without --group "
            "every user.",
            "delete": "Delete a runbook rule. If no rule is left, every user can run every runbook.",
        },
        readable=_readable,
        question="Delete the runbook rule {key}? If no rule is left, every user can run every runbook",
    )
)
