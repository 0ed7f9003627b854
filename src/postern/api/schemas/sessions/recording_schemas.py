"""Bodies of the ledger's checkpoints and keys."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import Field

from postern.api.schemas.common import Answer
from postern.domain.sessions.ledger import AnchorState, Checkpoint, LedgerKey
from postern.proof.proof_checkpoints import public_pem


class AnchorAnswer(Answer):
    anchor: str = Field(description="file, webhook or bucket")
    reached_at: datetime | None = Field(description="Null until it has stored the checkpoint")
    attempts: int
    error: str = Field(description="Error of the last attempt; empty if it succeeded")


class CheckpointAnswer(Answer):
    number: int = Field(description="The ledger's entry up to which everything is signed")
    hash: str = Field(description="Hash of the ledger up to that entry, in hexadecimal")
    at: datetime
    key: str = Field(description="Fingerprint of the signing key")
    signature: str
    introduces: str | None = Field(description="Public key that signs from here on, in hexadecimal")
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
                AnchorAnswer(anchor=state.anchor, reached_at=state.done_at, attempts=state.attempts, error=state.error)
                for state in states
            ],
        )


class LedgerKeyAnswer(Answer):
    id: str = Field(description="Fingerprint: SHA-256 of the public key, in hexadecimal")
    public_key: str = Field(description="PEM")
    created_at: datetime
    retired_at: datetime | None = Field(description="Null for the present key")

    @classmethod
    def of(cls, key: LedgerKey) -> LedgerKeyAnswer:
        return cls(id=key.id, public_key=public_pem(key.public), created_at=key.created_at, retired_at=key.retired_at)


class LedgerKeysAnswer(Answer):
    keys: list[LedgerKeyAnswer] = Field(
        description="Newest first; a copy of the oldest key, stored elsewhere, proves all"
    )
