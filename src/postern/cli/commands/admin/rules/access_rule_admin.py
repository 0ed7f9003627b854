from __future__ import annotations

from postern.cli.commands.admin.rules.coverage_fields import TAGS, connections
from postern.cli.nouns import ACCESS_RULE, GROUP
from postern.cli.resource_group import DESCRIPTION, Field, ResourceCommands, new_name, resource_group

access_rules = resource_group(
    ResourceCommands(
        noun=ACCESS_RULE,
        help="""Choose which groups see and use which connections.

        Rules take effect while the feature access-control is on. Then only administrators can use a connection that no
        rule names.

        \b
        postern admin access-rules create shop --group dba --connection shop --connection shop-replica
        postern admin access-rules create staging --group developers --tag stage=staging
        postern admin features enable access-control
        postern access shop --user ann@example.com
        """,
        columns=[
            ("name", "name"),
            ("groups", "groups"),
            ("connections", "connection_names"),
            ("with tags", "connection_tags"),
            ("description", "description"),
        ],
        options=[
            new_name(),
            DESCRIPTION,
            Field(
                "--group",
                "groups",
                "Group to whose members the rule applies.",
                many=True,
                completes=GROUP,
                required=True,
            ),
            connections("Connection that they can see and use."),
            TAGS,
        ],
        says={
            "update": "Change an access rule. Fields that you leave out stay as they are. Sessions that lose their "
            "access end at once.",
            "delete": "Delete an access rule. Sessions that no other rule allows end at once.",
        },
        question="Delete the access rule {key}? Its groups lose the access that it gives",
    )
)
