"""AWS Secrets Manager: `_aws:NAME_OR_ARN:KEY`.

Needs `secretsmanager:GetSecretValue` on the secret. The region is that of its ARN, else `AWS_REGION`. Credentials, and
the address of a private endpoint (`AWS_ENDPOINT_URL_SECRETS_MANAGER`), are found as in every AWS program.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError

from postern.errors import Unavailable
from postern.integrations.secrets.source import Document, Threads, checked_text

_CONFIG = Config(connect_timeout=2, read_timeout=4, retries={"total_max_attempts": 2, "mode": "standard"})


class AwsSecrets:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self._region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or None
        self._session = boto3.session.Session()
        self._clients: dict[str | None, Any] = {}
        self._making = Lock()  # clients are thread-safe, but their creation is not
        self._threads = Threads(most=8)

    async def fetch(self, name: str) -> Document:
        return await self._threads.run(lambda: self._fetch(name))

    def _fetch(self, name: str) -> Document:
        try:
            answer: Mapping[str, Any] = self._client(name).get_secret_value(SecretId=name)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "an error without a name")
            raise Unavailable(f"AWS Secrets Manager answered {code}") from None
        except NoRegionError:
            raise Unavailable("no AWS region is configured; set AWS_REGION where the agent runs") from None
        except NoCredentialsError:
            raise Unavailable("no AWS credentials were found where the agent runs") from None
        except (BotoCoreError, ValueError) as error:
            raise Unavailable(f"the request to AWS Secrets Manager failed: {type(error).__name__}") from None
        text = answer.get("SecretString")
        return Document(checked_text(answer.get("SecretBinary", b"") if text is None else text.encode()))

    def _client(self, name: str) -> Any:
        region = name.split(":")[3] if name.startswith("arn:") else self._region
        with self._making:
            if region not in self._clients:
                self._clients[region] = self._session.client("secretsmanager", region_name=region, config=_CONFIG)
            return self._clients[region]
