"""The ledger's checkpoints and keys, as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import Field

from postern.api.schemas.common import Answer
from postern.domain.sessions.ledger import AnchorState, Checkpoint, LedgerKey
from postern.proof.proof_checkpoints import public_pem


class AnchorAnswer(Answer):
    anchor: str = Field(description="file, webhook or bucket")
    reached_at: datetime | None = Field(description="None while it has not taken the checkpoint")
    attempts: int
    error: str = Field(description="Why the last try failed; empty when it did not")


class CheckpointAnswer(Answer):
    number: int = Field(description="The entry of the ledger up to which everything is signed")
    hash: str = Field(description="Of the ledger up to that entry, in hexadecimal")
    at: datetime
    key: str = Field(description="Fingerprint of the key that signed")
    signature: str
    introduces: str | None = Field(description="Public key, in hexadecimal, of the one that signs from here on")
    anchors: list[AnchorAnswer]

    @classmethod
    def of(cls, checkpoint: Checkpoint, states: Sequence[AnchorState] = ()) -> CheckpointAnswer:
        return cls(
            number=checkpoint.number,
            hash=checkpoint.hash.hex(),
            at=checkpoint.at,
            key=checkpoint.key,
            signature=checkpoint.signature.hex(),
            introduces=checkpoint.introduces.hex() if checkpoint.introduces else None,
            anchors=[
                AnchorAnswer(anchor=one.anchor, reached_at=one.done_at, attempts=one.attempts, error=one.error)
                for one in states
            ],
        )


class LedgerKeyAnswer(Answer):
    id: str = Field(description="Fingerprint: SHA-256 of the public key, in hexadecimal")
    public_key: str = Field(description="PEM")
    created_at: datetime
    retired_at: datetime | None = Field(description="None for the one that signs now")

    @classmethod
    def of(cls, key: LedgerKey) -> LedgerKeyAnswer:
        return cls(id=key.id, public_key=public_pem(key.public), created_at=key.created_at, retired_at=key.retired_at)


class LedgerKeysAnswer(Answer):
    keys: list[LedgerKeyAnswer] = Field(description="Newest first; a copy of the oldest, kept elsewhere, proves all")
