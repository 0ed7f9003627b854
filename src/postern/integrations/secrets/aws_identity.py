"""Keys of an identity at AWS: the agent's own, found as in every AWS program, or a role that it assumes.

The agent's own are those of its environment, of its profile, of its pod (IRSA), its task or its instance. botocore
knows all of these places; it blocks, so calls run in a thread.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from botocore.config import Config
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session

from postern.domain.secret import NO_SECRET, Secret
from postern.errors import Unavailable

_CONFIG: Final = Config(connect_timeout=2, read_timeout=4, retries={"total_max_attempts": 2, "mode": "standard"})
# botocore renews the agent's own keys ten minutes before they expire, if it is asked for them.
_ASK_AGAIN: Final = timedelta(minutes=1)
_AT_LEAST: Final = timedelta(minutes=10)
_BEFORE_END: Final = timedelta(minutes=5)
_NOT_IN_SESSION_NAME: Final = re.compile(r"[^\w+=,.@-]", re.ASCII)


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """Keys. They are to be asked for again at `renew_at`, and cannot be used after `expires_at`; None: never."""

    access_key: str
    secret_key: Secret
    session_token: Secret = NO_SECRET
    renew_at: datetime | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class AwsRole:
    """A role to assume. `session_name` is how CloudTrail names who uses it."""

    arn: str
    session_name: str
    external_id: str = ""


def session_name_of(text: str) -> str:
    """Return a text as the name of a role's session: 2 to 64 characters of those that AWS allows."""
    name = _NOT_IN_SESSION_NAME.sub("-", text)[:64]
    return name if len(name) >= 2 else "postern"


class AwsIdentityKeys:
    """Returns the keys of identities. Its methods block, and are called in one thread only."""

    def __init__(self) -> None:
        self._session = Session()
        self._own: Any = None

    def own(self, now: datetime) -> AwsKeys:
        """Return the keys of the agent's own identity. Raises Unavailable."""
        try:
            if self._own is None:
                self._own = self._session.get_credentials()
            if self._own is None:
                raise Unavailable("no AWS credentials were found where the agent runs")
            frozen = self._own.get_frozen_credentials()
        except (BotoCoreError, ClientError, ValueError, OSError) as error:
            raise Unavailable(f"the agent's AWS credentials cannot be renewed: {type(error).__name__}") from None
        expires = None
        if isinstance(self._own, RefreshableCredentials):
            # botocore does not say when; without its own field, it is ten minutes, before which it renews.
            expires = getattr(self._own, "_expiry_time", None) or now + _AT_LEAST
        return AwsKeys(
            frozen.access_key, Secret(frozen.secret_key), Secret(frozen.token or ""), now + _ASK_AGAIN, expires
        )

    def of_role(self, role: AwsRole, source: AwsKeys, region: str) -> AwsKeys:
        """Assume a role with the source's keys. Raises Unavailable."""
        try:
            client = self._session.create_client(
                "sts",
                region_name=region,
                aws_access_key_id=source.access_key,
                aws_secret_access_key=source.secret_key.reveal(),
                aws_session_token=source.session_token.reveal() or None,
                config=_CONFIG,
            )
            named = {"ExternalId": role.external_id} if role.external_id else {}
            answer = client.assume_role(RoleArn=role.arn, RoleSessionName=role.session_name, **named)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "an error without a name")
            raise Unavailable(f"AWS does not let the agent assume the role {role.arn}: {code}") from None
        except (BotoCoreError, ValueError, OSError) as error:
            raise Unavailable(f"the role {role.arn} cannot be assumed: {type(error).__name__}") from None
        return _keys_in(answer["Credentials"])


def _keys_in(credentials: Mapping[str, Any]) -> AwsKeys:
    expires: datetime = credentials["Expiration"].astimezone(UTC)
    return AwsKeys(
        credentials["AccessKeyId"],
        Secret(credentials["SecretAccessKey"]),
        Secret(credentials["SessionToken"]),
        expires - _BEFORE_END,
        expires,
    )
