"""A master key in AWS Key Management Service, which it never leaves.

Needs `kms:Encrypt` and `kms:Decrypt` on the key. Region and account are those of its ARN. Credentials, and the address
of a private endpoint (`AWS_ENDPOINT_URL_KMS`), are found as in every AWS program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from postern.errors import Misconfigured, Unavailable

_CONNECT, _READ = 5, 10  # seconds
_ATTEMPTS = 3
# Errors that mean that the key or the permission is wrong; all others may be temporary.
_WRONG = {
    *("AccessDeniedException", "DisabledException", "IncorrectKeyException", "InvalidCiphertextException"),
    *("InvalidArnException", "InvalidKeyUsageException", "KMSInvalidStateException", "NotFoundException"),
    *("UnrecognizedClientException", "InvalidSignatureException", "ValidationException", "ExpiredTokenException"),
}


class KmsMaster:
    """The master key. `arn` is a key's, not an alias's: an alias can be changed to another key, which could decrypt
    nothing."""

    def __init__(self, arn: str) -> None:
        parts = arn.split(":")
        if len(parts) != 6 or parts[0] != "arn" or parts[2] != "kms" or not parts[5].startswith("key/"):
            raise Misconfigured(
                "aws-kms: must be a key's ARN, as in arn:aws:kms:eu-central-1:111122223333:key/…",
                field="master_key",
            )
        self._arn = arn
        config = Config(
            connect_timeout=_CONNECT, read_timeout=_READ, retries={"total_max_attempts": _ATTEMPTS, "mode": "standard"}
        )
        try:
            self._client = boto3.client("kms", region_name=parts[3], config=config)
        except (BotoCoreError, ValueError) as error:
            raise Misconfigured(f"AWS KMS cannot be used: {error}", field="master_key") from None

    @property
    def id(self) -> str:
        return f"aws-kms:{self._arn}"

    def wrap(self, key: bytes, context: str) -> bytes:
        wrapped: bytes = self._call("encrypt", Plaintext=key, EncryptionContext=_bound_to(context))["CiphertextBlob"]
        return wrapped

    def unwrap(self, wrapped: bytes, context: str) -> bytes:
        opened = self._call("decrypt", CiphertextBlob=wrapped, EncryptionContext=_bound_to(context))
        key: bytes = opened["Plaintext"]
        return key

    def _call(self, operation: str, **arguments: Any) -> Mapping[str, Any]:
        try:
            answer: Mapping[str, Any] = getattr(self._client, operation)(KeyId=self._arn, **arguments)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            text = f"AWS KMS rejected the operation {operation} with {self._arn}: {code}"
            if code in _WRONG:
                raise Misconfigured(
                    f"{text}; check the key and this machine's permissions on it", field="master_key"
                ) from None
            raise Unavailable(f"{text}; try again") from None
        except BotoCoreError as error:
            raise Unavailable(f"AWS KMS does not answer for {self._arn}: {type(error).__name__}") from None
        return answer


def _bound_to(context: str) -> dict[str, str]:
    """Return the encryption context. KMS authenticates it and shows it in its audit trail; it is not secret."""
    return {"postern": context}
