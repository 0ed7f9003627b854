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
        checkpoint = self._read(line, "a checkpoint")
        if checkpoint is None:
            return
        last = self._given[-1].number if self._given else 0
        if checkpoint.number <= last:
            what = FindingKind.DOUBLED if checkpoint.number == last else FindingKind.REORDERED
            self.report.add(
                what, f"the checkpoint of entry {checkpoint.number} is out of order", entry=checkpoint.number
            )
        self._given.append(checkpoint)

    def add_anchored(self, line: bytes) -> None:
        """Add a checkpoint from an anchor, whose lines can be of other organisations, and repeated."""
        checkpoint = self._read(line, "a checkpoint from an anchor", others=True)
        if checkpoint is not None:
            self._anchored.append(checkpoint)

    def finish(self) -> dict[int, Checkpoint]:
        """Return the trusted checkpoints by the number of their entry."""
        given_ids = {id(checkpoint) for checkpoint in self._given}
        merged = sorted((*self._given, *self._anchored), key=lambda checkpoint: checkpoint.number)
        trusted: dict[int, Checkpoint] = {}
        unknown: list[Checkpoint] = []
        for checkpoint in merged:
            refusal = self._trust.refusal(checkpoint)
            if refusal and not self._trust.knows(checkpoint.key):
                unknown.append(checkpoint)
            elif refusal:
                self._report_forged(checkpoint, refusal)
            elif checkpoint.number in trusted and trusted[checkpoint.number].hash != checkpoint.hash:
                message = f"entry {checkpoint.number} has two signed checkpoints with different hashes"
                self.report.add(FindingKind.REWRITTEN, message, entry=checkpoint.number)
            else:
                trusted.setdefault(checkpoint.number, checkpoint)
                self.report.checkpoints += id(checkpoint) in given_ids
                self.report.anchored += id(checkpoint) not in given_ids
        self._judge(unknown, trusted)
        return trusted

    def _judge(self, unknown: list[Checkpoint], trusted: dict[int, Checkpoint]) -> None:
        """Judge checkpoints of unknown keys. Those before the first trusted one are accepted if one hands over to a
        given key.
        """
        first = min(trusted, default=None)
        handed = any(
            checkpoint.introduces and fingerprint(checkpoint.introduces) in self._roots for checkpoint in unknown
        )
        old = [checkpoint for checkpoint in unknown if handed and first is not None and checkpoint.number < first]
        for checkpoint in unknown:
            if checkpoint not in old:
                self._report_forged(
                    checkpoint, f"it is signed by the key {checkpoint.key}, which is not among the given keys"
                )
        if old:
            self.report.notes.append(
                f"{len(old)} checkpoints are signed by an older key that was not given; newer ones cover their entries"
            )
        if not trusted:
            self.report.add(FindingKind.UNPROVEN, "no checkpoint is signed by a given key: nothing is proven")

    def _report_forged(self, checkpoint: Checkpoint, reason: str) -> None:
        self.report.add(
            FindingKind.FORGED,
            f"the checkpoint of entry {checkpoint.number} is not trusted: {reason}",
            entry=checkpoint.number,
        )

    def _read(self, line: bytes, what: str, *, others: bool = False) -> Checkpoint | None:
        try:
            checkpoint = read_line(line)
        except Malformed as error:
            self.report.add(FindingKind.UNREADABLE, f"{what} cannot be read: {error.message}")
            return None
        if checkpoint.org_id != self._org_id:
            if not others:
                self.report.add(
                    FindingKind.FOREIGN, f"the checkpoint of entry {checkpoint.number} belongs to another organisation"
                )
            return None
        return checkpoint
