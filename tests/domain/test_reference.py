from __future__ import annotations

import pytest

from postern.domain.reference import MAX_KEY, MAX_NAME, Reference, is_reference
from postern.errors import Invalid

ARN = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:prod/db-AbCdEf"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("_envjson:SHOP:password", Reference("_envjson", "SHOP", "password")),
        ("_envjson:SHOP:a:b", Reference("_envjson", "SHOP", "a:b")),
        ("_cloudprov:prod/db:password", Reference("_cloudprov", "prod/db", "password")),
        ("_aws:plain:", Reference("_aws", "plain", "")),
        (f"_aws:{ARN}:password", Reference("_aws", ARN, "password")),
        (f"_aws:{ARN}:", Reference("_aws", ARN, "")),
        ("_vaultkv2:kv/team/db:password", Reference("_vaultkv2", "kv/team/db", "password")),
    ],
)
def test_references_are_taken_apart_and_put_together(text: str, expected: Reference) -> None:
    assert Reference.read(text) == expected
    assert str(expected) == text
    assert is_reference(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cGFzcw==",
        "_envjson",
        "_envjson:SHOP",
        "_envjson:SHOP:",
        "_envjson::password",
        "_vaultkv1:kv/db:",
        "_aws:name",
        "_aws::key",
        "_aws:name:key\nmore",
        "_aws:na\0me:key",
        "_AWS:name:key",
        "_gcp:" + "x" * (MAX_NAME + 1) + ":key",
        "_gcp:name:" + "x" * (MAX_KEY + 1),
    ],
)
def test_what_is_no_reference(text: str) -> None:
    assert not is_reference(text)


def test_attack_a_password_written_by_mistake_is_not_repeated() -> None:
    with pytest.raises(Invalid, match="unknown provider; use one of _aws:NAME_OR_ARN:KEY, _azure:") as caught:
        Reference.read("_hunter2:is:mine")
    assert "hunter2" not in caught.value.message
    with pytest.raises(Invalid, match="must have the form _envjson:VARIABLE:KEY") as caught:
        Reference.read("_envjson:hunter2")
    assert "hunter2" not in caught.value.message
