from __future__ import annotations

from postern.cli.commands.admin.rules.coverage_fields import TAGS, connections
from postern.cli.nouns import GROUP, NETWORK_RULE
from postern.cli.resource_group import DESCRIPTION, Field, ResourceCommands, new_name, resource_group

network_rules = resource_group(
    ResourceCommands(
        noun=NETWORK_RULE,
        help="""Choose from which networks users and programs can connect.

        Each rule that applies must allow the client's address. A rule without groups applies to everyone. A rule
        without connections and tags covers the whole gateway: every connection, logins and the API.

        \b
        postern admin network-rules create contractors --group contractors --network 10.8.0.0/16
        postern admin network-rules create production --tag stage=production --network 192.0.2.0/24
        """,
        columns=[
            ("name", "name"),
            ("enabled", lambda row: "yes" if row["enabled"] else "no"),
            ("networks", "allowed_networks"),
            ("groups", lambda row: ", ".join(row["groups"]) or "everyone"),
            ("connections", "connection_names"),
            ("with tags", "connection_tags"),
        ],
        options=[
            new_name(),
            DESCRIPTION,
            Field("--enabled/--disabled", "enabled", "Whether the rule applies; default: it does."),
            Field(
                "--network",
                "allowed_networks",
                "Network from which they can connect.",
                many=True,
                metavar="CIDR",
                required=True,
            ),
            Field(
                "--group",
                "groups",
                "Group to whose members the rule applies.",
                many=True,
                completes=GROUP,
                clear=("--everyone", "Apply the rule to everyone.", []),
            ),
            connections("Connection that the rule covers."),
            TAGS,
        ],
        says={
            "update": "Change a network rule. Fields that you leave out stay as they are. Sessions from addresses that "
            "are no longer allowed end at once.",
        },
        question="Delete the network rule {key}? Its connections can then be used from any address",
    )
)
