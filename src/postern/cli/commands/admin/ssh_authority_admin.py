from __future__ import annotations

import click

from postern.cli.nouns import SSH_AUTHORITY
from postern.cli.public_keys import read
from postern.cli.resource_group import Argument, ResourceCommands, new_name, resource_group
from postern.domain.identity.ssh_key import public_key


def _key(file: str) -> str:
    """Return the public key in the file. Raises Invalid for a private key, which is never sent."""
    return public_key(read(file), "FILE").text


ssh_authorities = resource_group(
    ResourceCommands(
        noun=SSH_AUTHORITY,
        help="""Choose the certificate authorities whose SSH certificates users can log in with. One of a certificate's
        principals must be the user's e-mail address or subject.

        \b
        postern admin ssh-authorities create people ~/ca/users_ca.pub
        ssh-keygen -s ~/ca/users_ca -I ann -n ann@example.com -V +8h ~/.ssh/id_ed25519.pub
        """,
        columns=[
            ("name", "name"),
            ("algorithm", "algorithm"),
            ("fingerprint", "fingerprint"),
            ("created", "created_at"),
        ],
        options=[new_name()],
        arguments=[
            Argument("name"),
            Argument("public_key", "FILE", type=click.Path(dir_okay=False, allow_dash=True), read=_key),
        ],
        created="Users with certificates of {name} ({fingerprint}) can now log in.",
        says={
            "create": "Trust the SSH certificate authority whose public key is in FILE ('-' for standard input). A "
            "private key is rejected on this machine and not sent.",
            "delete": "Stop trusting an authority. Sessions that use its certificates end.",
        },
        question="Stop trusting {key}, and end the sessions that use its certificates",
    )
)
