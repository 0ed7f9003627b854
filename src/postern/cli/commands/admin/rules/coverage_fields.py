"""Options of rules that name connections, and tags of connections."""

from __future__ import annotations

from postern.cli import completion
from postern.cli.nouns import CONNECTION
from postern.cli.resource_group import Field, tags

TAGS = Field(
    "--tag",
    "connection_tags",
    "Cover every connection with all these tags, too.",
    many=True,
    metavar="KEY=VALUE",
    completes=completion.tags,
    read=tags,
    clear=("--no-tags", "Remove the rule's tags.", {}),
)


def connections(help_text: str) -> Field:
    return Field(
        "--connection",
        "connection_names",
        help_text,
        many=True,
        completes=CONNECTION,
        clear=("--no-connections", "Remove the connections that the rule names.", []),
    )
