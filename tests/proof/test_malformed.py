"""Verification of an export with any content ends with findings and never with an error."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.proofs import ORG, Made, a_record
from tests.support.proofs import records as with_records

from postern.errors import Malformed
from postern.proof.canonical import canonical
from postern.proof.export_reading import verify_package
from postern.proof.package import END, header, padding
from postern.proof.proof_findings import FindingKind, VerificationReport
from postern.proof.proof_ledger import LedgerWriter, first_hash, next_hash

Members = list[tuple[str, bytes]]
# What a JSON value may have become: each type, the borders of numbers, and texts that look like what they are not.
STRANGE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**53 - 1, -(2**53) + 1, "", "x", "0", "\u0000", "é" * 300, [], {}),
    *([[]], [None], {"x": 1}, "2026-05-01", "2026-05-01T12:00:00", "2026-05-01T12:00:00.000000Z", "9999-99-99"),
    *("00" * 32, "zz", "0" * 63, str(UUID(int=0)), "{" + str(UUID(int=1)) + "}", "urn:uuid:" + str(UUID(int=1))),
    *("0001-01-01T00:00:00+23:59", "opened", "closed", "records", "purged"),
)


def members(data: bytes) -> Members:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return [(one.name, tar.extractfile(one).read()) for one in tar]  # type: ignore[union-attr]


def packed(found: Members) -> bytes:
    return b"".join(any_header(name, len(data)) + data + padding(len(data)) for name, data in found) + END


def any_header(name: str, size: int) -> bytes:
    """That of a member with a name that no export has, too."""
    if name.isascii():
        return header(name, size)
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "surrogateescape")


def verified(made: Made, data: bytes, folder: Path) -> VerificationReport | None:
    """None where it is no export at all, which `verify_package` says by its one documented error."""
    path = folder / "export.tar"
    path.write_bytes(data)
    try:
        return verify_package(path, [made.key.public])
    except Malformed:
        return None


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Of every value within it, itself included."""
    found = [path]
    if isinstance(value, dict):
        for name, one in value.items():
            found += paths_of(one, (*path, name))
    elif isinstance(value, list):
        for at, one in enumerate(value):
            found += paths_of(one, (*path, at))
    return found


def changed(value: Any, path: tuple[Any, ...], to: Any) -> Any:
    if not path:
        return to
    if isinstance(value, dict):
        return {**value, path[0]: changed(value[path[0]], path[1:], to)}
    return [changed(one, path[1:], to) if at == path[0] else one for at, one in enumerate(value)]


def lines_of(found: Members) -> list[tuple[int, int, bytes]]:
    """(member, line, text) of all lines; manifest and seal are one."""
    return [
        (at, number, line)
        for at, (name, data) in enumerate(found)
        if name.endswith((".jsonl", ".json"))
        for number, line in enumerate(data.splitlines() if name.endswith(".jsonl") else [data])
    ]


def with_line(found: Members, at: int, number: int, text: bytes) -> Members:
    name, data = found[at]
    if name.endswith(".json"):
        return [*found[:at], (name, text), *found[at + 1 :]]
    lines = data.splitlines()
    lines[number] = text
    return [*found[:at], (name, b"".join(line + b"\n" for line in lines)), *found[at + 1 :]]


@pytest.mark.slow
def test_replaced_value_of_any_member_is_a_finding_and_never_an_error(tmp_path: Path) -> None:
    """Replace each JSON value by each strange one; the line stays canonical, so that no earlier check rejects it."""
    made = with_records(a_record())
    found = members(made.pack(part=2000))
    assert verified(made, packed(found), tmp_path).is_good  # type: ignore[union-attr]
    seen: set[tuple[str, tuple[Any, ...]]] = set()
    for at, number, line in lines_of(found):
        group = found[at][0].partition("-")[0]
        lead, text = (line[:65], line[65:]) if group == "ledger" else (b"", line)
        value = json.loads(text)
        for path in paths_of(value):
            kind = value.get("kind", "") if isinstance(value, dict) else ""
            place = (f"{group} {kind}", tuple(part if isinstance(part, str) else 0 for part in path))
            if place in seen:  # lines of one kind are alike
                continue
            seen.add(place)
            for strange in STRANGE:
                other = changed(value, path, strange)
                try:
                    rewritten = canonical(other)
                except (Malformed, AttributeError):
                    rewritten = json.dumps(other).encode()
                if rewritten == text:
                    continue
                report = verified(made, packed(with_line(found, at, number, lead + rewritten)), tmp_path)
                assert report is None or not report.is_good, (place, strange)
    assert len(seen) > 60


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_mutated_member_of_an_export_is_a_finding_and_never_an_error(data: st.DataObject, tmp_path: Path) -> None:
    made = with_records(a_record())
    found = members(made.pack(part=2000))
    at = data.draw(st.integers(0, len(found) - 1))
    name, content = found[at]
    how = data.draw(st.sampled_from(["doubled", "cut", "dropped", "bytes", "renamed", "swapped", "long", "nested"]))
    if how == "doubled":
        found.insert(at, found[at])
    elif how == "cut":
        found[at] = (name, content[: data.draw(st.integers(0, max(0, len(content) - 1)))])
    elif how == "dropped":
        del found[at]
    elif how == "bytes":
        begin = data.draw(st.integers(0, len(content)))
        found[at] = (name, content[:begin] + data.draw(st.binary(min_size=1, max_size=9)) + content[begin + 1 :])
    elif how == "renamed":
        found[at] = (
            data.draw(st.sampled_from(["x", "ledger-9.jsonl", "segments/x.rec", "seal.json", "é", "a" * 99])),
            content,
        )
    elif how == "swapped":
        other = data.draw(st.integers(0, len(found) - 1))
        found[at], found[other] = found[other], found[at]
    elif how == "long":
        found[at] = (name, content + b"9" * 70_000)
    else:
        found[at] = (name, content + b"[" * 200_000 + b"\n")
    report = verified(made, packed(found), tmp_path)
    assert report is None or not report.is_good or packed(found) == made.pack(part=2000)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_signed_ledger_with_an_invalid_value_is_a_finding(data: st.DataObject, tmp_path: Path) -> None:
    """An attacker with the key can sign any chain, also one over invalid entries."""
    made = with_records(a_record())
    at = data.draw(st.integers(0, len(made.entries) - 1))
    values = json.loads(made.entries[at].content)
    name = data.draw(st.sampled_from(sorted(values)))
    strange = data.draw(st.sampled_from(STRANGE))
    if values[name] == strange and type(values[name]) is type(strange):
        return
    values[name] = strange
    rechained(made, at, canonical(values))
    report = verified(made, made.pack(part=2000), tmp_path)
    # These may be anything that reads well: a reason, times. Everything else is found.
    free = name in ("reason", "at", "started", "hold", "by", "oldest", "newest", "complete")
    assert report is None or not report.is_good or free, (name, strange)


def rechained(made: Made, at: int, content: bytes) -> None:
    """Put `content` in the place of an entry, and make all hashes and signatures fit."""
    before = made.entries[at - 1].hash if at else first_hash(ORG)
    for number in range(at, len(made.entries)):
        entry = made.entries[number]
        text = content if number == at else entry.content
        before = next_hash(before, text)
        made.entries[number] = replace(entry, content=text, hash=before)
    made.checkpoints.clear()
    made.writer = LedgerWriter(ORG, replace(made.writer.head, hash=before))
    made.checkpoint()


@pytest.mark.parametrize("claimed", [2**40, 2**53 - 1])
def test_impossible_count_of_segments_or_records_is_a_finding(tmp_path: Path, claimed: int) -> None:
    made = with_records(a_record())
    for at, entry in enumerate(made.entries):
        values = json.loads(entry.content)
        name = {"closed": "segments", "records": "count"}.get(values["kind"])
        if name is not None:
            rechained(made, at, canonical({**values, name: claimed}))
    report = verified(made, made.pack(), tmp_path)
    assert report is not None
    assert {FindingKind.MISSING, FindingKind.UNREADABLE} & {one.what for one in report.findings}


def test_export_of_an_unknown_format_is_rejected(tmp_path: Path) -> None:
    made = a_record()
    found = members(made.pack())
    manifest = json.loads(found[0][1])
    for number in (0, 3, 2.5, "2", True):
        other = [(found[0][0], json.dumps({**manifest, "format": number}, sort_keys=True).encode()), *found[1:]]
        assert verified(made, packed(other), tmp_path) is None
