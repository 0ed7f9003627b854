from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest
from tests.support.kms import kms, new_key

from postern.errors import Misconfigured, Unavailable
from postern.integrations.kms_aws import KmsMaster

pytestmark = pytest.mark.ci

MATERIAL = os.urandom(32)


@pytest.fixture
def arn(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with kms(monkeypatch) as key:
        yield key


def test_wrapped_key_unwraps_and_does_not_contain_the_key(arn: str) -> None:
    wrapped = KmsMaster(arn).wrap(MATERIAL, "data_keys/1/server")
    assert MATERIAL not in wrapped
    assert KmsMaster(arn).unwrap(wrapped, "data_keys/1/server") == MATERIAL
    assert KmsMaster(arn).id == f"aws-kms:{arn}"


def test_wrapped_key_does_not_unwrap_for_another_purpose(arn: str) -> None:
    wrapped = KmsMaster(arn).wrap(MATERIAL, "data_keys/1/server")
    with pytest.raises(Misconfigured, match="InvalidCiphertext"):
        KmsMaster(arn).unwrap(wrapped, "data_keys/2/server")


def test_missing_kms_key_is_misconfigured(arn: str) -> None:
    gone = arn.rsplit("/", 1)[0] + "/00000000-0000-0000-0000-000000000000"
    with pytest.raises(Misconfigured, match="NotFound"):
        KmsMaster(gone).wrap(MATERIAL, "data_keys/1/server")


def test_another_kms_key_does_not_unwrap(arn: str) -> None:
    wrapped = KmsMaster(arn).wrap(MATERIAL, "data_keys/1/server")
    with pytest.raises(Misconfigured):
        KmsMaster(new_key()).unwrap(wrapped, "data_keys/1/server")


def test_kms_that_does_not_answer_is_unavailable(arn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", f"http://127.0.0.1:{closed.getsockname()[1]}")
        with pytest.raises(Unavailable, match="does not answer"):
            KmsMaster(arn).wrap(MATERIAL, "data_keys/1/server")


@pytest.mark.parametrize(
    "text", ["alias/ours", "arn:aws:kms:eu-central-1:111122223333:alias/ours", "arn:aws:s3:::bucket", "nonsense"]
)
def test_master_key_setting_must_be_the_arn_of_a_key(text: str) -> None:
    with pytest.raises(Misconfigured, match="key's ARN"):
        KmsMaster(text)
