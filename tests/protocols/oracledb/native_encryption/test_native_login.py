"""Logins at targets with native encryption: each algorithm and version, refused ones, and bytes changed on the way."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.oracle_native_logins import NativeMeeting, meet, target_login
from tests.support.oracledb.native_services import (
    ACCEPTED,
    ORACLE_19,
    ORACLE_19_RENEWED,
    ORACLE_23,
    REJECTED,
    REQUESTED,
    REQUIRED,
    NativeOptions,
)

from postern.domain.secret import Secret
from postern.errors import PosternError, ProtocolViolation, Unavailable
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.oracledb.native_encryption.native_algorithms import NativeMode
from postern.protocols.oracledb.wire import tns_packets as tns

VERSIONS = {"19c before July 2021": ORACLE_19, "19c": ORACLE_19_RENEWED, "23ai": ORACLE_23}
END = tns.end_of_file()
PAIRS = [("AES256", "SHA256"), ("AES192", "SHA384"), ("AES128", "SHA512"), ("AES256", ""), ("", "SHA256")]


def options(encryption: str, checksum: str, version: int = ORACLE_23, level: str = REQUIRED) -> NativeOptions:
    """Return settings of a server with these algorithms alone; an empty one is rejected."""
    return NativeOptions(
        level if encryption else REJECTED,
        (encryption,) if encryption else (),
        level if checksum else REJECTED,
        (checksum,) if checksum else (),
        version,
    )


def run(folder: Path, native: NativeOptions | None, **more: object) -> NativeMeeting:
    mode = more.pop("mode", NativeMode.PREFER)
    return asyncio.run(meet(folder, native, target_login(native=mode), **more))  # type: ignore[arg-type]


@pytest.mark.parametrize("version", VERSIONS.values(), ids=VERSIONS)
@pytest.mark.parametrize(("encryption", "checksum"), PAIRS)
def test_login_at_a_target_that_requires_encryption(
    tmp_path: Path, encryption: str, checksum: str, version: int
) -> None:
    met = run(tmp_path, options(encryption, checksum, version))
    assert (met.error, met.failure) == (None, "")
    assert met.greeting is not None
    assert met.greeting.values["AUTH_DBNAME"] == "ORCLPDB1"
    assert met.session.native is not None
    assert met.session.native.is_active
    assert met.greeting.sdu < 8192


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_answers_of_the_target_arrive_in_pieces(tmp_path: Path, size: int) -> None:
    met = run(tmp_path, NativeOptions(), size=size, sdu=512)
    assert (met.error, met.failure) == (None, "")


@pytest.mark.parametrize("level", [ACCEPTED, REQUESTED, REQUIRED])
@pytest.mark.parametrize("mode", [NativeMode.PREFER, NativeMode.REQUIRE])
def test_encryption_is_used_where_the_target_has_it(tmp_path: Path, level: str, mode: NativeMode) -> None:
    met = run(tmp_path, options("AES256", "SHA256", level=level), mode=mode)
    assert met.error is None
    assert met.session.native is not None
    assert (met.session.native.encryption, met.session.native.checksum) == (17, 5)


@pytest.mark.parametrize("native", [None, NativeOptions(REJECTED, (), REJECTED, ())])
def test_login_without_encryption_where_the_target_has_none(tmp_path: Path, native: NativeOptions | None) -> None:
    met = run(tmp_path, native)
    assert met.error is None
    assert met.greeting is not None
    assert met.greeting.sdu == 8192
    assert met.session.native is None or not met.session.native.is_active


ABSENT = {
    "no native services": (None, "has no native network encryption"),
    "rejected": (NativeOptions(REJECTED, (), REJECTED, ()), "no algorithm"),
    "no encryption": (NativeOptions(REJECTED, ()), "no algorithm"),
    "no checksums": (NativeOptions(REQUIRED, ("AES256",), REJECTED, ()), "no algorithm"),
    "before July 2021": (NativeOptions(version=ORACLE_19), "before July 2021"),
}


@pytest.mark.parametrize(("native", "text"), ABSENT.values(), ids=ABSENT)
def test_required_encryption_that_is_absent_ends_the_login(
    tmp_path: Path, native: NativeOptions | None, text: str
) -> None:
    met = run(tmp_path, native, mode=NativeMode.REQUIRE)
    assert isinstance(met.error, Unavailable)
    assert text in met.error.message
    assert "AUTH_" not in str(met.far.take())


WEAK = {
    "RC4": NativeOptions(REQUIRED, ("RC4_256",)),
    "3DES": NativeOptions(REQUIRED, ("3DES168",)),
    "MD5": NativeOptions(checksum_types=("MD5",)),
    "SHA1": NativeOptions(checksum_types=("SHA1",)),
}


@pytest.mark.parametrize("native", WEAK.values(), ids=WEAK)
def test_target_with_weak_algorithms_alone_is_refused(tmp_path: Path, native: NativeOptions) -> None:
    met = run(tmp_path, native)
    assert isinstance(met.error, Unavailable)
    assert "ORA-12650" in met.error.message
    assert "SQLNET.ENCRYPTION_TYPES_SERVER" in met.error.message


NOT_OFFERED = [(17, 6, "the encryption RC4_256"), (17, 99, "the encryption number 99"), (5, 1, "the checksum MD5")]


@pytest.mark.parametrize(("offered", "chosen", "name"), NOT_OFFERED)
def test_algorithm_that_was_not_offered_is_refused_by_name(
    tmp_path: Path, offered: int, chosen: int, name: str
) -> None:
    field = b"\0\1\0\2"

    def change(reply: bytes) -> bytes:
        if b"\xde\xad\xbe\xef" not in reply:
            return reply
        return reply.replace(field + bytes([offered]), field + bytes([chosen]), 1)

    met = run(tmp_path, NativeOptions(), change=change)
    assert isinstance(met.error, Unavailable)
    assert f"the target chose {name}" in met.error.message


def test_target_that_requires_it_is_refused_where_it_is_disabled(tmp_path: Path) -> None:
    met = run(tmp_path, NativeOptions(), mode=NativeMode.DISABLE)
    assert isinstance(met.error, Unavailable)
    assert "NATIVE_ENCRYPTION is disable" in met.error.message


def test_target_that_refuses_weak_clients_accepts_this_one(tmp_path: Path) -> None:
    assert run(tmp_path, NativeOptions(allows_weak_clients=False)).error is None


def test_small_group_is_refused(tmp_path: Path) -> None:
    met = run(tmp_path, NativeOptions(prime=2**521 - 1))
    assert isinstance(met.error, Unavailable)
    assert "521 bits" in met.error.message


def test_wrong_password_is_told_as_such(tmp_path: Path) -> None:
    requested = target_login(password=Secret("wrong"))
    met = asyncio.run(meet(tmp_path, NativeOptions(), requested))
    assert isinstance(met.error, TargetRefused)
    assert met.error.code == "28000"


@given(number=st.integers(0, 5), place=st.integers(0, 10_000), bit=st.integers(0, 7))
@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_attack_changed_bytes_never_pass_for_a_login(tmp_path: Path, number: int, place: int, bit: int) -> None:
    """One bit of a reply from the agreement on is changed. The login ends with an error, or its values are the same."""
    seen = 0

    def change(reply: bytes) -> bytes:
        nonlocal seen
        seen += bool(reply)
        if seen != number + 2 or not reply:
            return reply
        at = place % len(reply)
        return reply[:at] + bytes([reply[at] ^ 1 << bit]) + reply[at + 1 :]

    met = run(tmp_path, NativeOptions(), change=change, patience=0.5)
    if met.error is None:
        assert met.greeting is not None
        assert met.greeting.values["AUTH_SC_SERVICE_NAME"] == "ORCLPDB1"
        assert met.greeting.values["AUTH_SESSION_ID"] == "101"
    else:
        assert isinstance(met.error, PosternError | ConnectionError | TimeoutError)


@given(junk=st.binary(max_size=900), kept=st.integers(0, 700), size=st.sampled_from([0, 1, 13]))
@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_attack_garbage_in_the_negotiation_ends_the_login(tmp_path: Path, junk: bytes, kept: int, size: int) -> None:
    def change(reply: bytes) -> bytes:
        if b"\xde\xad\xbe\xef" not in reply:
            return reply
        body = reply[8:][: kept + 2] + junk
        return (8 + len(body)).to_bytes(4, "big") + reply[4:8] + body + END

    met = run(tmp_path, NativeOptions(), change=change, size=size)
    assert isinstance(met.error, Unavailable | ProtocolViolation)
