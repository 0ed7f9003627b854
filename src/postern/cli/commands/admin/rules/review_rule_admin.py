from __future__ import annotations

import click

from postern.cli.commands.admin.rules.coverage_fields import TAGS, connections
from postern.cli.nouns import GROUP, REVIEW_RULE
from postern.cli.resource_group import DESCRIPTION, Field, ResourceCommands, new_name, resource_group
from postern.cli.timestamps import seconds


def _groups(flag: str, name: str, says: str, clear: tuple[str, str, list[str]] | None = None, old: str = "") -> Field:
    """Return an option that names groups; `old` is its word in earlier versions."""
    aliases, clear_alias = ([f"--{old}"], f"--no-{old}") if old else ([], "")
    return Field(flag, name, says, many=True, completes=GROUP, clear=clear, aliases=aliases, clear_alias=clear_alias)


review_rules = resource_group(
    ResourceCommands(
        noun=REVIEW_RULE,
        help="""Choose who must approve before a user connects or runs a script.

        Rules take effect at once, for administrators too. If several rules cover a connection, each must be met.

        \b
        postern admin review-rules create prod-in-pairs --tag stage=prod --reviewers leads --reviewers sre --approvals 2
        postern admin review-rules update prod-in-pairs --max-duration 1h
        postern access shop --user ann@example.com
        """,
        columns=[
            ("name", "name"),
            ("for", "access_type"),
            ("reviewers", "reviewers_groups"),
            ("approvals", "min_approvals"),
            ("connections", "connection_names"),
            ("with tags", "connection_tags"),
            ("description", "description"),
        ],
        options=[
            new_name(),
            DESCRIPTION,
            Field(
                "--for",
                "access_type",
                "Connecting (jit), running scripts (command), or both.",
                type=click.Choice(["jit", "command", "jit_command"]),
            ),
            connections("A connection that the rule covers."),
            TAGS,
            _groups("--reviewers", "reviewers_groups", "Members of this group can approve."),
            _groups(
                "--required-group",
                "approval_required_groups",
                "Require approval only from requesters in this group.  [default: everyone]",
                ("--no-required-groups", "Require approval from all requesters again.", []),
                old="asked",
            ),
            _groups(
                "--exempt-group",
                "skip_review_groups",
                "Exempt members of this group from approval.",
                ("--no-exempt-groups", "Remove all exemptions.", []),
                old="skip",
            ),
            _groups(
                "--force",
                "force_approval_groups",
                "Members of this group can approve alone, with `reviews approve --force`.",
                ("--no-force", "Remove the groups whose members can approve alone.", []),
            ),
            Field("--approvals", "min_approvals", "Number of reviewers who must approve.  [default: 1]", type=int),
            Field(
                "--all-groups/--any-group",
                "all_groups_must_approve",
                "Require the approvals from each of the reviewers' groups, or from any of them.",
            ),
            Field(
                "--max-duration",
                "access_max_duration",
                "Maximum duration of access, such as 8h or 1h30m.  [default: no limit by this rule]",
                type=seconds,
                metavar="DURATION",
                clear=("--no-max-duration", "Remove the maximum duration.", None),
                aliases=["--longest"],
                clear_alias="--no-longest",
            ),
        ],
        defaults={"access_type": "jit_command", "reviewers_groups": []},
        says={
            "create": "Create a review rule, for connecting and for scripts unless --for says otherwise.",
            "delete": "Delete a review rule. Access that it covered no longer needs its approval.",
        },
        question="Delete the review rule {key}? Its connections then no longer need its approval",
    )
)
