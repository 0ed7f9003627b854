"""The files of an export: each that is missing, added, linked or damaged is a finding."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from tests.support.proofs import BEGIN, ORG, a_record, records, unpack

from postern.domain.sessions.ledger import LedgerKey
from postern.errors import Malformed
from postern.proof.export_reading import ExportMember, members, verify_package
from postern.proof.package import BLOCK, END, Manifest, PackageDigest, header, padding, read_manifest, seal_content
from postern.proof.proof_checkpoints import new_key
from postern.proof.proof_findings import FindingKind, VerificationReport
from postern.proof.proof_writing import PackageWriter

MADE = records(a_record())
DATA = MADE.pack(part=2000)
SEGMENT = f"segments/{UUID(int=1002)}.000002.rec"


def seal_again(folder: Path, key: LedgerKey = MADE.key, **changes: object) -> None:
    """Write the seal that fits the folder, as somebody who has the key would."""
    digest = PackageDigest()
    for member in members(folder):
        if member.group != "seal":
            member.finish(digest)
    (folder / "seal.json").write_bytes(seal_content(replace(key, **changes), BEGIN, digest.digest()))  # type: ignore[arg-type]


def check(folder: Path) -> VerificationReport:
    return verify_package(folder, [MADE.key.public])


def kinds(report: VerificationReport) -> list[FindingKind]:
    return [finding.what for finding in report.findings]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return unpack(DATA, tmp_path / "folder")


def test_export_with_records_is_fully_proven(folder: Path) -> None:
    report = check(folder)
    assert report.is_good, report.findings
    assert (report.sessions_proven, report.records_proven, report.segments_proven) == (4, 4, 6)
    seal_again(folder)
    assert check(folder).is_good


def test_seal_of_another_key_or_organisation_is_forged(folder: Path) -> None:
    for key, changes in (
        (new_key(ORG, BEGIN), {}),
        (MADE.key, {"org_id": UUID(int=8)}),
        (new_key(ORG, BEGIN), {"id": MADE.key.id}),
    ):
        seal_again(folder, key, **changes)
        assert kinds(check(folder)) == [FindingKind.FORGED]


def _link(file: Path) -> None:
    target = file.parent.parent.parent / "elsewhere"
    file.rename(target)
    file.symlink_to(target)


def _break_link(file: Path) -> None:
    file.unlink()
    file.symlink_to("nowhere")


def _replace_by_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize("name", ["ledger-000001.jsonl", SEGMENT])
@pytest.mark.parametrize("change", [_link, _break_link, _replace_by_pipe])
def test_link_or_pipe_in_place_of_a_member_is_unreadable(
    folder: Path, name: str, change: Callable[[Path], None]
) -> None:
    change(folder / name)
    report = check(folder)
    assert FindingKind.UNREADABLE in kinds(report)
    assert any(name in finding.message for finding in report.findings)


def test_link_to_a_folder_is_a_finding(folder: Path) -> None:
    (folder / "segments").rename(folder.parent / "elsewhere")
    (folder / "segments").symlink_to(folder.parent / "elsewhere")
    assert FindingKind.UNREADABLE in kinds(check(folder))


@pytest.mark.parametrize("name", ["more", "more/of.it", "segments/x", "ledger-000001.txt", "zzz"])
def test_unknown_file_is_a_finding_even_if_the_seal_covers_it(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"")
    seal_again(folder)
    [finding] = [one for one in check(folder).findings if one.what is not FindingKind.CHANGED]
    assert finding.what is FindingKind.FOREIGN
    assert repr(name) in finding.message


@pytest.mark.parametrize("group", ["checkpoints", "ledger", "records", "sessions"])
@pytest.mark.parametrize("shift", ["first", "all"])
def test_parts_of_a_group_that_are_not_numbered_from_one_are_missing(folder: Path, group: str, shift: str) -> None:
    parts = sorted(folder.glob(f"{group}-*.jsonl"), reverse=True)
    for part in parts:
        number = int(part.name[-12:-6])
        part.rename(part.with_name(f"{group}-{number + 1:06}.jsonl"))
    if shift == "first":
        (folder / f"{group}-000001.jsonl").write_bytes(b"")
    seal_again(folder)
    report = check(folder)
    assert kinds(report) == ([] if shift == "first" else [FindingKind.MISSING] * len(parts))


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line[:63] + line[64:],
        lambda line: line[:64] + b"\t" + line[65:],
        lambda line: line[:64].upper() + line[64:],
        lambda line: b"  " + line[2:],
        lambda line: b"\xff" * 64 + line[64:],
        lambda line: b"",
    ],
)
def test_ledger_line_without_a_hash_is_a_finding(folder: Path, change: Callable[[bytes], bytes]) -> None:
    file = folder / "ledger-000001.jsonl"
    lines = file.read_bytes().split(b"\n")
    if change(lines[0]) == lines[0]:
        pytest.fail("the hash has no letter to change")
    file.write_bytes(b"\n".join([change(lines[0]), *lines[1:]]))
    seal_again(folder)
    assert check(folder).findings[0].message == "a line of the ledger has no hash"


@pytest.mark.parametrize("group", ["checkpoints", "ledger", "records", "sessions"])
def test_last_line_without_a_newline_is_a_finding(folder: Path, group: str) -> None:
    file = folder / f"{group}-000001.jsonl"
    file.write_bytes(file.read_bytes()[:-1])
    seal_again(folder)
    report = check(folder)
    assert FindingKind.UNREADABLE in kinds(report)
    assert "ends within a line" in " ".join(one.message for one in report.findings)


@pytest.mark.parametrize(("group", "name"), [("records", "record"), ("sessions", "session")])
def test_finding_names_the_line_that_cannot_be_read(folder: Path, group: str, name: str) -> None:
    file = folder / f"{group}-000001.jsonl"
    first, _, rest = file.read_bytes().partition(b"\n")
    file.write_bytes(first + b"\nx\n" + rest)
    seal_again(folder)
    [finding] = check(folder).findings
    assert finding.what is FindingKind.UNREADABLE
    assert f"the {name} in line 2 of the {group} " in finding.message


@pytest.mark.parametrize(("size", "is_read"), [(64 * 1024, True), (64 * 1024 + 1, False)])
def test_manifest_or_seal_over_the_size_limit_is_not_read(tmp_path: Path, size: int, *, is_read: bool) -> None:
    """A file of exactly the limit is read, and its content is then rejected."""
    seal = unpack(DATA, tmp_path / "seal")
    (seal / "seal.json").write_bytes(b"x" * size)
    [finding] = check(seal).findings
    assert finding.what is FindingKind.UNREADABLE
    manifest = unpack(DATA, tmp_path / "manifest")
    (manifest / "manifest.json").write_bytes(b'{"format":"' + b"x" * (size - 13) + b'"}')
    with pytest.raises(Malformed, match="its format is 'x" if is_read else "not JSON"):
        check(manifest)


def test_progress_counts_every_byte(folder: Path) -> None:
    sizes: list[int] = []
    verify_package(folder, [MADE.key.public], (), sizes.append)
    assert sizes == [member.size for member in _read_all(folder)]
    assert sum(sizes) == sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _read_all(path: Path) -> list[ExportMember]:
    found = []
    for member in members(path):
        member.finish(PackageDigest())
        found.append(member)
    return found


def test_tar_and_folder_have_same_members(tmp_path: Path, folder: Path) -> None:
    tar = tmp_path / "export.tar"
    tar.write_bytes(DATA)
    assert [(one.member_name, one.size) for one in _read_all(tar)] == [
        (one.member_name, one.size) for one in _read_all(folder)
    ]
    for path in (tar, folder):
        for member in members(path):
            data = member.read(member.size)
            assert not member.read(10)
            with member.again() as source:
                assert source.read(member.size) == data


def _member(name: str, data: bytes) -> bytes:
    return header(name, len(data)) + data + padding(len(data))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (END, ""),
        (_member("seal.json", b"x") + END, ""),
        (_member("seal.json", b"x" * BLOCK) + END, ""),
        (b"", "ends early"),
        (_member("seal.json", b"x"), "ends early"),
        (_member("seal.json", b"x") + END[:BLOCK], "after the end"),
        (_member("seal.json", b"x") + END[:-1], "after the end"),
        (_member("seal.json", b"x") + END + b"\0", "after the end"),
        (_member("seal.json", b"x") + END[:BLOCK] + b"x" * BLOCK, "after the end"),
        (_member("seal.json", b"x")[:-1] + b"x" + END, "after seal.json"),
        (_member("seal.json", b"x")[:-1], "after seal.json"),
        (_member("seal.json", b"x" * 9)[: BLOCK + 8], "in the middle of seal.json"),
        (b"x" * BLOCK + END, "not a tar"),
        (_member("seal.json", b"x")[:BLOCK].replace(b"0000600", b"0000644") + END, "not a tar"),
        (header("seal.json", 1)[:-1], "ends early"),
    ],
)
def test_tar_that_does_not_end_exactly_as_written_is_malformed(tmp_path: Path, data: bytes, problem: str) -> None:
    path = tmp_path / "export.tar"
    path.write_bytes(data)
    if not problem:
        assert len(_read_all(path)) == data.count(b"seal.json")
        return
    with pytest.raises(Malformed, match=problem):
        _read_all(path)


def test_truncated_export_is_unreadable_and_proves_no_session(tmp_path: Path) -> None:
    path = tmp_path / "export.tar"
    at = DATA.index(b"ledger-000001.jsonl") + BLOCK + 300
    path.write_bytes(DATA[:at])
    report = check(path)
    assert kinds(report).count(FindingKind.UNREADABLE) >= 1
    assert FindingKind.TRUNCATED in kinds(report)
    assert report.sessions_proven == 0


def test_repeated_or_reordered_member_is_a_finding(tmp_path: Path) -> None:
    parts = [(one.member_name, one.read(one.size)) for one in members(_tar(tmp_path, DATA))]
    names = [name for name, _ in parts]
    at = names.index("ledger-000001.jsonl")
    for order in (
        [*parts[: at + 1], parts[at], *parts[at + 1 :]],
        [*parts[:at], parts[at + 1], parts[at], *parts[at + 2 :]],
    ):
        data = b"".join(_member(*one) for one in order) + END
        report = check(_tar(tmp_path, data))
        assert FindingKind.REORDERED in kinds(report)
    after_seal = b"".join(_member(*one) for one in [*parts, parts[at]]) + END
    [finding] = check(_tar(tmp_path, after_seal)).findings[:1]
    assert (finding.what, "ledger-000001.jsonl" in finding.message) == (FindingKind.FOREIGN, True)


def _tar(folder: Path, data: bytes) -> Path:
    path = folder / "export.tar"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("part", "sizes"),
    [(1, [3, 3, 3]), (3, [3, 3, 3]), (4, [6, 3]), (6, [6, 3]), (7, [9]), (100, [9])],
)
def test_writer_begins_a_new_part_once_the_size_is_reached(part: int, sizes: list[int]) -> None:
    manifest = Manifest(ORG, None, None, 1, bytes(32), 0, BEGIN)
    writer = PackageWriter(manifest, MADE.key, part=part)
    data = b"".join(writer.line("ledger", line) for line in (b"aa", b"bb", b"cc")) + writer.flush()
    lines, expected = b"aa\nbb\ncc\n", b""
    for number, size in enumerate(sizes, 1):
        expected += _member(f"ledger-{number:06}.jsonl", lines[:size])
        lines = lines[size:]
    assert data == expected
    assert writer.flush() == b""


def test_writer_numbers_parts_of_each_group_from_one(tmp_path: Path) -> None:
    writer = PackageWriter(Manifest(ORG, None, None, 1, bytes(32), 0, BEGIN), MADE.key, part=3)
    data = writer.begin()
    for group in ("checkpoints", "ledger"):
        data += b"".join(writer.line(group, line) for line in (b"aa", b"b", b"c"))
    before, after = writer.stream(SEGMENT, 3, bytes(32))
    data += writer.flush() + before + b"xyz" + after + writer.end(BEGIN)
    assert [one.member_name for one in _read_all(_tar(tmp_path, data))] == [
        *("manifest.json", "checkpoints-000001.jsonl", "checkpoints-000002.jsonl"),
        *("ledger-000001.jsonl", "ledger-000002.jsonl", SEGMENT, "seal.json"),
    ]


def test_manifest_of_the_first_format_is_read() -> None:
    manifest = Manifest(ORG, None, BEGIN, 1, bytes(32), 0, BEGIN, 1)
    assert read_manifest(manifest.line()) == manifest
    for number in (0, 3):
        with pytest.raises(Malformed, match="format"):
            read_manifest(replace(manifest, format=number).line())
