from __future__ import annotations

from collections.abc import Sequence

import click

from postern.cli.json_files import one_object
from postern.cli.nouns import FEDERATION_RULE, SERVICE_ACCOUNT
from postern.cli.resource_group import DESCRIPTION, Field, ResourceCommands, new_name, resource_group
from postern.cli.timestamps import seconds
from postern.client.client_shapes import Row

_ISSUERS = {"github": "https://token.actions.githubusercontent.com", "gitlab": "https://gitlab.com"}


def _claims(texts: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of each claim. Raises UsageError."""
    claims: dict[str, list[str]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise click.UsageError(f"--claim: {text!r}: write it as CLAIM=VALUE, such as repository=acme/shop")
        claims.setdefault(name, []).append(value)
    return claims


def _readable(row: Row) -> Row:
    """Return the row with claims as they are typed, and the keys counted."""
    claims = [f"{name}={value}" for name, values in row["claims"].items() for value in values]
    keys = f"{len(row['jwks']['keys'])} fixed keys" if row["jwks"] else "fetched from the issuer"
    return {**row, "claims": claims, "jwks": keys}


federation_rules = resource_group(
    ResourceCommands(
        noun=FEDERATION_RULE,
        help="""Choose which programs log in with tokens of GitHub, GitLab, Kubernetes or another issuer.

        A program gets a short login as a service account, without a stored secret: `postern login --federated`.

        \b
        postern admin service-accounts create deploy --group deployers
        postern admin federation-rules create shop --service-account deploy --issuer github \\
          --audience https://gateway.example.com:7480 \\
          --claim repository=acme/shop --claim ref=refs/heads/main
        """,
        columns=[
            ("name", "name"),
            ("service account", "service_account"),
            ("issuer", "issuer_url"),
            ("claims", "claims"),
            ("audience", "audience"),
        ],
        options=[
            new_name(),
            DESCRIPTION,
            Field(
                "--service-account",
                "service_account",
                "Service account that programs act as.",
                metavar="SUBJECT",
                completes=SERVICE_ACCOUNT,
                required=True,
            ),
            Field(
                "--issuer",
                "issuer_url",
                "Issuer of the tokens: its address, or github or gitlab for github.com and gitlab.com.",
                metavar="URL",
                read=lambda text: _ISSUERS.get(text, text),
                required=True,
            ),
            Field(
                "--audience",
                "audience",
                "Audience of the tokens, for this gateway alone: its address.",
                required=True,
            ),
            Field(
                "--claim",
                "claims",
                "Value that a claim must have; several of one claim are alternatives. '*' matches within one part "
                "between '/' and ':'.",
                many=True,
                metavar="CLAIM=VALUE",
                read=_claims,
                required=True,
            ),
            Field("--algorithm", "algorithms", "Accepted signature algorithm: RS256 or ES256.", many=True),
            Field(
                "--jwks",
                "jwks",
                "File with the issuer's public keys, if the gateway cannot reach the issuer; '-' reads standard input.",
                type=click.File(),
                read=lambda file: one_object(file.name, file.read()),
                clear=("--no-jwks", "Fetch the issuer's keys again.", None),
            ),
            Field(
                "--max-duration",
                "login_duration_seconds",
                "How long a login lasts, such as 15m; at most 1h.  [default: 15m]",
                type=seconds,
                metavar="DURATION",
            ),
            Field(
                "--allow-admin/--deny-admin",
                "allow_admin",
                "Whether the service account can be an administrator.  [default: deny]",
            ),
            Field(
                "--allow-reuse/--deny-reuse",
                "allow_reuse",
                "Whether one token can log in more than once.  [default: deny]",
            ),
        ],
        readable=_readable,
        says={
            "update": "Change a federation rule. Fields that you leave out stay as they are. The logins that it "
            "allowed end, with their sessions.",
            "delete": "Delete a federation rule. The logins that it allowed end, with their sessions.",
        },
        question="Delete the federation rule {key}? Its programs can no longer log in",
    )
)
