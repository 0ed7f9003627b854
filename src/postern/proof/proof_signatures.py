"""Verification of checkpoints: which of them are trusted."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from postern.domain.sessions.ledger import Checkpoint
from postern.errors import Malformed
from postern.proof.proof_checkpoints import Trust, fingerprint, read_line
from postern.proof.proof_findings import FindingKind, VerificationReport


class SignatureCheck:
    def __init__(self, org_id: UUID, keys: Sequence[bytes], report: VerificationReport) -> None:
        self._org_id = org_id
        self._roots = {fingerprint(key) for key in keys}
        self._trust = Trust(keys)
        self.report = report
        self._given: list[Checkpoint] = []
        self._anchored: list[Checkpoint] = []

    @property
    def trust(self) -> Trust:
        return self._trust

    def add(self, line: bytes) -> None:
        found = self._read(line, "a checkpoint")
        if found is None:
            return
        last = self._given[-1].number if self._given else 0
        if found.number <= last:
            what = FindingKind.DOUBLED if found.number == last else FindingKind.REORDERED
            self.report.add(what, f"the checkpoint of entry {found.number} is out of order", entry=found.number)
        self._given.append(found)

    def add_anchored(self, line: bytes) -> None:
        """Add a checkpoint from an anchor, whose lines can be of other organisations, and repeated."""
        found = self._read(line, "a checkpoint from an anchor", others=True)
        if found is not None:
            self._anchored.append(found)

    def finish(self) -> dict[int, Checkpoint]:
        """Return the trusted checkpoints by the number of their entry."""
        given = {id(one) for one in self._given}
        merged = sorted((*self._given, *self._anchored), key=lambda one: one.number)
        trusted: dict[int, Checkpoint] = {}
        unknown: list[Checkpoint] = []
        for one in merged:
            refusal = self._trust.refusal(one)
            if refusal and not self._trust.knows(one.key):
                unknown.append(one)
            elif refusal:
                self._report_forged(one, refusal)
            elif one.number in trusted and trusted[one.number].hash != one.hash:
                message = f"entry {one.number} has two signed checkpoints with different hashes"
                self.report.add(FindingKind.REWRITTEN, message, entry=one.number)
            else:
                trusted.setdefault(one.number, one)
                self.report.checkpoints += id(one) in given
                self.report.anchored += id(one) not in given
        self._judge(unknown, trusted)
        return trusted

    def _judge(self, unknown: list[Checkpoint], trusted: dict[int, Checkpoint]) -> None:
        """Judge checkpoints of unknown keys. Those before the first trusted one are accepted if one hands over to a
        given key.
        """
        first = min(trusted, default=None)
        handed = any(one.introduces and fingerprint(one.introduces) in self._roots for one in unknown)
        old = [one for one in unknown if handed and first is not None and one.number < first]
        for one in unknown:
            if one not in old:
                self._report_forged(one, f"it is signed by the key {one.key}, which is not among the given keys")
        if old:
            self.report.notes.append(
                f"{len(old)} checkpoints are signed by an older key that was not given; newer ones cover their entries"
            )
        if not trusted:
            self.report.add(FindingKind.UNPROVEN, "no checkpoint is signed by a given key: nothing is proven")

    def _report_forged(self, one: Checkpoint, why: str) -> None:
        self.report.add(
            FindingKind.FORGED, f"the checkpoint of entry {one.number} is not trusted: {why}", entry=one.number
        )

    def _read(self, line: bytes, what: str, *, others: bool = False) -> Checkpoint | None:
        try:
            found = read_line(line)
        except Malformed as error:
            self.report.add(FindingKind.UNREADABLE, f"{what} cannot be read: {error.message}")
            return None
        if found.org_id != self._org_id:
            if not others:
                self.report.add(
                    FindingKind.FOREIGN, f"the checkpoint of entry {found.number} belongs to another organisation"
                )
            return None
        return found
