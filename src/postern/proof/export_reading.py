"""Verification of an export, with nothing but the file and the public key.

The members of an export are read from a tar file or a folder: in order, once, in constant memory.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar

from postern.domain.sessions.ledger import SealedRecord
from postern.errors import Malformed
from postern.proof.package import (
    BLOCK,
    END,
    GROUPS,
    Manifest,
    PackageDigest,
    Seal,
    group_of,
    header,
    padding,
    read_manifest,
    read_seal,
    read_segment_name,
)
from postern.proof.proof_copies import chunks_of, locate, measure
from postern.proof.proof_findings import FindingKind, VerificationReport
from postern.proof.proof_sessions import VerifiedSession
from postern.proof.proof_sessions import read_line as read_session
from postern.proof.proof_signatures import SignatureCheck
from postern.proof.records import read_line as read_record
from postern.proof.verify import Copy, VerificationScope, verify

CHUNK = 256 * 1024


class ExportMember(io.RawIOBase):
    """File of an export. Reading hashes it. `again` opens a fully read one a second time."""

    def __init__(self, name: str, size: int, source: BinaryIO, again: Callable[[], BinaryIO]) -> None:
        self.member_name = name
        self.group = group_of(name)
        self.size = size
        self.again = again
        self._source = source
        self._left = size
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: closing a buffer around a member must not close the archive."""

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override] # as io.RawIOBase has it
        """Read the next bytes. Raises Malformed if the file is shorter than its header says."""
        if not self._left:
            return 0
        data = self._source.read(min(len(buffer), self._left))
        if not data:
            raise Malformed(f"the export ends in the middle of {self.member_name}")
        self._left -= len(data)
        self._hash.update(data)
        buffer[: len(data)] = data
        return len(data)

    def finish(self, digest: PackageDigest) -> None:
        """Read the rest, and add it to the export's digest."""
        while self.read(CHUNK):
            pass
        digest.add(self.member_name, self.size, self._hash.digest())


def members(path: Path) -> Iterator[ExportMember]:
    """Yield the members. Each must be read to its end before the next. Raises Malformed, OSError."""
    return _folder_members(path) if path.is_dir() else _tar_members(path)


def _folder_members(folder: Path) -> Iterator[ExportMember]:
    files = [file for file in folder.rglob("*") if not file.is_dir() or file.is_symlink()]
    names = {file.relative_to(folder).as_posix(): file for file in files}
    for name in sorted(names, key=_sort_key):
        file = names[name]
        if file.is_symlink() or not file.is_file():
            raise Malformed(f"{name} is not a file")
        with file.open("rb") as source:
            size = source.seek(0, io.SEEK_END)
            source.seek(0)
            yield ExportMember(name, size, source, lambda file=file: file.open("rb"))  # type: ignore[misc]


def _sort_key(name: str) -> tuple[int, str]:
    group = group_of(name)
    return (GROUPS.index(group) if group else len(GROUPS), name)


def _tar_members(path: Path) -> Iterator[ExportMember]:
    with path.open("rb") as source:
        while True:
            block = source.read(BLOCK)
            if block == END[:BLOCK]:
                if source.read(BLOCK) != END[BLOCK:] or source.read(1):
                    raise Malformed("there is extra data after the end of the export")
                return
            name, size = _header(block)
            begin = source.tell()
            yield ExportMember(name, size, source, lambda begin=begin, size=size: _Part(path, begin, size))  # type: ignore[misc]
            if source.read(-size % BLOCK) != padding(size):
                raise Malformed(f"the padding after {name} was changed")


def _header(block: bytes) -> tuple[str, int]:
    if len(block) < BLOCK:
        raise Malformed("the export ends early")
    try:
        info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        same = header(info.name, info.size) == block
    except (tarfile.TarError, ValueError):
        same = False
    if not same:
        raise Malformed("it is not a tar file in the format of exports")
    return info.name, info.size


class _Part(io.BytesIO):
    """Member that is read a second time, to locate damage in it."""

    def __init__(self, path: Path, begin: int, size: int) -> None:
        with path.open("rb") as source:
            source.seek(begin)
            super().__init__(source.read(size))


_LONGEST = 64 * 1024 * 1024  # bytes of a line, which can contain a script or a list of a million segments
_SMALL = 64 * 1024  # bytes of manifest and seal
T = TypeVar("T")
Progress = Callable[[int], None]


def verify_package(
    path: Path, keys: Sequence[bytes], anchors: Sequence[bytes] = (), progress: Progress = lambda _bytes: None
) -> VerificationReport:
    """Verify an export and return the report.

    `anchors` are lines of checkpoint files that anchors stored. `progress` is called with the number of bytes read.
    Damage is a finding; raises Malformed only if the file is not an export at all.
    """
    if not path.exists():
        raise Malformed(f"{path} does not exist")
    report = VerificationReport()
    package = _Package(path, report, progress)
    manifest = package.manifest()
    since, until = manifest.since, manifest.until
    scope = VerificationScope(
        manifest.org_id, manifest.first, manifest.before, since, until, manifest.last, manifest.at
    )
    signatures = SignatureCheck(manifest.org_id, keys, report)
    checkpoints = package.lines("checkpoints")
    entries, records, sessions = package.entries(), package.records(), package.sessions()
    verify(scope, checkpoints, entries, records, sessions, package.copies(), signatures, anchors)
    _check_seal(package, manifest, signatures)
    return report


class _Package:
    """Members by group, each read once. Damage to the archive is a finding, and ends the reading."""

    def __init__(self, path: Path, report: VerificationReport, progress: Progress) -> None:
        self._report = report
        self._progress = progress
        self._members = members(path)
        self._next: ExportMember | None = None
        self._place = (0, "")
        self.digest = PackageDigest()

    def manifest(self) -> Manifest:
        manifests = [read_manifest(_read_small(member)) for member in self._group("manifest")]
        if not manifests:
            raise Malformed("this is not an export, or its beginning is missing: it has no manifest")
        return manifests[0]

    def lines(self, group: str) -> Iterator[bytes]:
        for number, member in enumerate(self._group(group), 1):
            if int(member.member_name[-12:-6]) != number:
                self._report.add(FindingKind.MISSING, f"{member.member_name} exists, but the part before it is missing")
            yield from self._lines(member)

    def entries(self) -> Iterator[tuple[bytes, bytes]]:
        for line in self.lines("ledger"):
            digest, blank, content = line[:64], line[64:65], line[65:]
            try:
                hash_bytes = bytes.fromhex(digest.decode("ascii"))
            except ValueError:
                hash_bytes = b""
            if blank != b" " or hash_bytes.hex().encode() != digest:
                self._report.add(FindingKind.UNREADABLE, "a line of the ledger has no hash")
                hash_bytes = b""
            yield hash_bytes, content

    def records(self) -> Iterator[SealedRecord]:
        yield from self._read("records", "record", read_record)

    def sessions(self) -> Iterator[VerifiedSession]:
        yield from self._read("sessions", "session", read_session)

    def _read(self, group: str, name: str, read: Callable[[bytes], T]) -> Iterator[T]:
        for number, line in enumerate(self.lines(group), 1):
            try:
                yield read(line)
            except Malformed as error:
                message = f"the {name} in line {number} of the {group} cannot be read: {error.message}"
                self._report.add(FindingKind.UNREADABLE, message)

    def copies(self) -> Iterator[Copy]:
        for member in self._group("segments"):
            segment_key = read_segment_name(member.member_name)
            assert segment_key is not None  # guaranteed by the group
            try:
                size, digest = measure(chunks_of(io.BufferedReader(member)))
                problem = ""
            except Malformed as error:
                size, digest, problem = 0, b"", error.message

            def locate_damage(member: ExportMember = member) -> tuple[int, int] | None:
                with member.again() as source:
                    return locate(chunks_of(source))

            yield Copy(*segment_key, size, digest, problem, locate_damage)

    def rest(self) -> Iterator[ExportMember]:
        yield from self._group("seal")
        while (member := self._peek()) is not None:
            self._report.add(
                FindingKind.FOREIGN, f"{member.member_name!r} is not part of an export, or is out of order"
            )
            self._finish_member(member)

    def _group(self, group: str) -> Iterator[ExportMember]:
        while True:
            member = self._peek()
            # Foreign files are reported and skipped, wherever they are.
            while member is not None and not member.group:
                self._report.add(FindingKind.FOREIGN, f"{member.member_name!r} is not part of an export")
                self._finish_member(member)
                member = self._peek()
            if member is None or member.group != group:
                return
            place = (GROUPS.index(group), member.member_name)
            if place <= self._place:
                self._report.add(FindingKind.REORDERED, f"{member.member_name} is out of order")
            self._place = place
            yield member
            self._finish_member(member)

    def _peek(self) -> ExportMember | None:
        if self._next is None:
            try:
                self._next = next(self._members, None)
            except (Malformed, OSError) as error:
                self._report.add(FindingKind.UNREADABLE, f"the rest of the export cannot be read: {error}")
                self._members = iter(())
        return self._next

    def _finish_member(self, member: ExportMember) -> None:
        self._next = None
        try:
            member.finish(self.digest if member.group != "seal" else PackageDigest())
        except (Malformed, OSError) as error:
            self._report.add(FindingKind.UNREADABLE, f"the rest of the export cannot be read: {error}")
            self._members = iter(())
        self._progress(member.size)

    def _lines(self, member: ExportMember) -> Iterator[bytes]:
        source = io.BufferedReader(member)
        while True:
            try:
                line = source.readline(_LONGEST)
            except (Malformed, OSError):  # reported at the end of the member
                return
            if not line:
                return
            if not line.endswith(b"\n"):
                self._report.add(
                    FindingKind.UNREADABLE, f"{member.member_name} ends within a line, or a line is too long"
                )
                return
            yield line[:-1]


def _check_seal(package: _Package, manifest: Manifest, signatures: SignatureCheck) -> None:
    seal: Seal | None = None
    report = signatures.report
    for member in package.rest():
        try:
            seal = read_seal(_read_small(member))
        except Malformed as error:
            report.add(FindingKind.UNREADABLE, f"the seal of the export: {error.message}")
            return
    if seal is None:
        report.add(
            FindingKind.TRUNCATED, "the export has no seal: it was cut off, or was created without the signing key"
        )
    elif seal.org_id != manifest.org_id or not signatures.trust.verifies(seal.key, seal.signature, seal.data):
        report.add(FindingKind.FORGED, "the seal of the export is not signed by a trusted key")
    elif seal.digest != package.digest.digest():
        report.add(FindingKind.CHANGED, "the export does not match its seal: it was changed after it was created")


def _read_small(member: ExportMember) -> bytes:
    data = member.read(_SMALL + 1) if member.size <= _SMALL else b""
    while len(data) < member.size <= _SMALL and (more := member.read(_SMALL)):
        data += more
    return data
