"""Login tokens of the agent's own identity at a cloud: `_identity:aws:REGION`, `_identity:azure:`, `_identity:gcp:`.

Databases of these clouds take such a token instead of a password, so that none is stored. Credentials are found as for
the clouds' secret stores (`aws.py`, `azure.py`, `gcp.py`).

- AWS RDS and Aurora: a signed URL with the target's host, port and user, valid for 15 minutes; needs `rds-db:connect`.
- Azure Database: an access token of Entra; the user is the identity's name at the database.
- Google Cloud SQL: an access token with the scope for logins; needs the role Cloud SQL Instance User.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from postern.domain.secret import Secret
from postern.errors import Unavailable
from postern.integrations.secrets.source import Threads

AZURE_SCOPE = "https://ossrdbms-aad.database.windows.net/.default"
GOOGLE_SCOPE = "https://www.googleapis.com/auth/sqlservice.login"
_RDS_HOST = re.compile(r"[a-z0-9.-]+\.([a-z]{2}(?:-[a-z]+)+-\d)\.rds\.amazonaws\.com(?:\.cn)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TokenTarget:
    """The database that a token is for, as the connection names it."""

    host: str
    port: int
    user: str


class LoginTokens(Protocol):
    async def issue(self, target: TokenTarget, region: str) -> Secret:
        """Return a token. `region` is for AWS only; empty: that of the host's name, else the agent's. Raises
        Unavailable with the reason, without a token in it."""


class AwsLoginTokens:
    def __init__(self, environ: Mapping[str, str]) -> None:
        from boto3.session import Session

        self._region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or ""
        self._session = Session()
        self._clients: dict[str, Any] = {}
        self._threads = Threads(most=1)  # clients are created there

    async def issue(self, target: TokenTarget, region: str) -> Secret:
        region = region or region_of(target.host) or self._region
        if not region:
            raise Unavailable("no AWS region is known; write _identity:aws:REGION, or set AWS_REGION")
        return await self._threads.run(lambda: self._issue(target, region))

    def _issue(self, target: TokenTarget, region: str) -> Secret:
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        try:
            if region not in self._clients:
                self._clients[region] = self._session.client("rds", region_name=region)
            token: str = self._clients[region].generate_db_auth_token(
                DBHostname=target.host, Port=target.port, DBUsername=target.user, Region=region
            )
        except NoCredentialsError:
            raise Unavailable("no AWS credentials were found where the agent runs") from None
        except (BotoCoreError, ClientError, ValueError) as error:
            raise Unavailable(f"AWS issued no token to the agent: {type(error).__name__}") from None
        return Secret(token)


class AzureLoginTokens:
    def __init__(self) -> None:
        from postern.integrations.secrets.azure import AzureAccessTokens

        self._tokens = AzureAccessTokens(AZURE_SCOPE)

    async def issue(self, target: TokenTarget, region: str) -> Secret:
        return Secret(await self._tokens.get())


class GoogleLoginTokens:
    def __init__(self) -> None:
        from postern.integrations.secrets.gcp import GoogleAccessTokens

        self._tokens = GoogleAccessTokens(GOOGLE_SCOPE)

    async def issue(self, target: TokenTarget, region: str) -> Secret:
        return Secret(await self._tokens.get())


def region_of(host: str) -> str:
    """Return the region in the name of an RDS endpoint; empty for other names."""
    match = _RDS_HOST.fullmatch(host.rstrip("."))
    return match[1].lower() if match else ""
