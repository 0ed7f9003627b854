"""Format of an export: a tar file, or a folder with the same files.

    manifest.json                        organisation, time range, part of the ledger
    checkpoints-000001.jsonl …           one checkpoint per line
    ledger-000001.jsonl …                one entry per line, after its hexadecimal hash and a space
    records-000001.jsonl …               one record per line, with its audit entry or review
    sessions-000001.jsonl …              one session per line: its facts, its metadata, the list of its segments
    segments/<session>.<number>.rec      as written, or .rec.zst as stored
    seal.json                            signature over all the others

Members come in this order, and within a group by name. Members are split so that each fits in memory, and the tar is
written without knowing its final length. Its headers contain nothing but name and size: a reader can predict every
byte of them, so that nothing can be changed there either.

    seal     "postern export\\n" and canonical JSON of organisation, at, key and digest, signed (Ed25519)
    digest   SHA-256 over, for each member: length of name (4 bytes), name, size (8 bytes), SHA-256 of its content
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from postern.domain.sessions.ledger import LedgerKey, moment
from postern.errors import Malformed
from postern.proof.canonical import canonical, parse
from postern.proof.proof_checkpoints import sign

FORMAT = 2
FORMATS = (1, FORMAT)  # that can be read; 1 had no records
BLOCK = 512
END = b"\0" * 2 * BLOCK
MANIFEST, SEAL = "manifest.json", "seal.json"
GROUPS = ("manifest", "checkpoints", "ledger", "records", "sessions", "segments", "seal")
_OF_LINES = frozenset({"checkpoints", "ledger", "records", "sessions"})
_SEALED = b"postern export\n"
# Header fields that are the same for each member: all but name, size and checksum.
_NAME, _CHECKSUM = 100, 148  # maximal length of the name, offset of the checksum
_BEFORE_SIZE = b"%07o\x00%07o\x00%07o\x00" % (0o600, 0, 0)  # mode, owner, group
_BEHIND_SIZE = b"".join(
    (
        b"\x00%011o\x00" % 0,  # time of change
        b" " * 8,  # the checksum field, which counts as blanks in the sum
        b"0" + bytes(100),  # an ordinary file without link target
        b"ustar\x00" + b"00" + bytes(64),  # version, names of owner and group
        bytes(183),  # device, prefix of a long name, padding
    )
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """First member of an export. `before` is h(first - 1); `last` was the ledger's newest entry when the export
    started.
    """

    org_id: UUID
    since: datetime | None
    until: datetime | None
    first: int
    before: bytes
    last: int
    at: datetime
    format: int = FORMAT

    def line(self) -> bytes:
        return canonical(
            {
                "format": self.format,
                "organisation": str(self.org_id),
                "since": moment(self.since) if self.since else None,
                "until": moment(self.until) if self.until else None,
                "first": self.first,
                "before": self.before.hex(),
                "last": self.last,
                "at": moment(self.at),
            }
        )


def read_manifest(data: bytes) -> Manifest:
    """Parse a manifest. Raises Malformed."""
    values = parse(data)
    if type(values.get("format")) is not int or values["format"] not in FORMATS:
        raise Malformed(f"its format is {values.get('format')!r}; this version of Postern reads up to {FORMAT}")
    try:
        manifest = Manifest(
            UUID(values["organisation"]),
            datetime.fromisoformat(values["since"]) if values["since"] else None,
            datetime.fromisoformat(values["until"]) if values["until"] else None,
            values["first"],
            bytes.fromhex(values["before"]),
            values["last"],
            datetime.fromisoformat(values["at"]),
            values["format"],
        )
        are_counts = (
            type(manifest.first) is int and type(manifest.last) is int and manifest.first > 0 and manifest.last >= 0
        )
        is_canonical = manifest.line() == data and are_counts and len(manifest.before) == hashlib.sha256().digest_size
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        is_canonical = False
    if not is_canonical:
        raise Malformed("it is not the manifest of an export")
    return manifest


def part_name(group: str, number: int) -> str:
    return f"{group}-{number:06}.jsonl"


def segment_name(session_id: UUID, number: int, suffix: str) -> str:
    return f"segments/{session_id}.{number:06}{suffix}"


def read_segment_name(name: str) -> tuple[UUID, int] | None:
    """Return (session, number), or None if this is not exactly the name of a segment."""
    folder, _, rest = name.partition("/")
    session, _, tail = rest.partition(".")
    number, _, suffix = tail.partition(".")
    try:
        parsed = UUID(session), int(number)
    except ValueError:
        return None
    is_canonical = segment_name(*parsed, f".{suffix}") == name and suffix in ("rec", "rec.zst")
    return parsed if folder == "segments" and is_canonical else None


def group_of(name: str) -> str:
    """Return the group of a member, empty for a name that no export has."""
    if name in (MANIFEST, SEAL):
        return name.removesuffix(".json")
    if read_segment_name(name):
        return "segments"
    group, _, number = name.removesuffix(".jsonl").rpartition("-")
    is_known = group in _OF_LINES and number.isdecimal() and name == part_name(group, int(number))
    return group if is_known else ""


def header(name: str, size: int) -> bytes:
    """Return the tar header of a member (ustar of POSIX.1-1988).

    `tarfile` builds the same block, but takes twenty times as long.
    """
    encoded = name.encode("ascii")
    if len(encoded) > _NAME or not 0 <= size < 8**11:
        raise ValueError(f"a ustar header cannot contain the name {name!r} and the size {size}")
    block = b"%b%b%011o%b" % (encoded.ljust(_NAME, b"\x00"), _BEFORE_SIZE, size, _BEHIND_SIZE)
    checksum = b"%06o\x00" % sum(block)
    return block[:_CHECKSUM] + checksum + block[_CHECKSUM + len(checksum) :]


def padding(size: int) -> bytes:
    return b"\0" * (-size % BLOCK)


class PackageDigest:
    """Digest of all members, in their order."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, name: str, size: int, content: bytes) -> None:
        """Add a member. `content` is its SHA-256."""
        encoded = name.encode()
        self._hash.update(len(encoded).to_bytes(4, "big") + encoded + size.to_bytes(8, "big") + content)

    def digest(self) -> bytes:
        return self._hash.digest()


def seal_content(key: LedgerKey, at: datetime, digest: bytes) -> bytes:
    """Return the content of `seal.json`."""
    content = _seal_content(key.org_id, moment(at), key.id, digest)
    return canonical({**content, "signature": sign(key, _SEALED + canonical(content)).hex()})


@dataclass(frozen=True, slots=True)
class Seal:
    org_id: UUID
    key: str
    digest: bytes
    signature: bytes
    data: bytes  # the signed bytes


def read_seal(data: bytes) -> Seal:
    """Parse a seal. Raises Malformed."""
    values = parse(data)
    try:
        org_id, digest = UUID(values["organisation"]), bytes.fromhex(values["digest"])
        content = _seal_content(org_id, values["at"], values["key"], digest)
        signature = bytes.fromhex(values["signature"])
        is_canonical = isinstance(values["key"], str) and canonical({**content, "signature": signature.hex()}) == data
    except (ValueError, KeyError, TypeError, AttributeError):
        is_canonical = False
    if not is_canonical:
        raise Malformed("it is not the seal of an export")
    return Seal(org_id, values["key"], digest, signature, _SEALED + canonical(content))


def _seal_content(org_id: UUID, at: str, key: str, digest: bytes) -> dict[str, Any]:
    return {"organisation": str(org_id), "at": at, "key": key, "digest": digest.hex()}
