"""The services that are about recordings once they are written, built together."""

from __future__ import annotations

from dataclasses import dataclass

from postern.services.recordings.checkpoints import Checkpoints
from postern.services.recordings.exports import Exports
from postern.services.recordings.keeper import Keeper
from postern.services.recordings.ledger import Ledger
from postern.services.recordings.texts import SessionTexts
from postern.services.recordings.verifier import Verifier
from postern.services.server.machine import Machine
from postern.store.ports import Clock, Recordings, Stores


@dataclass(frozen=True)
class RecordingServices:
    checkpoints: Checkpoints
    exports: Exports
    keeper: Keeper
    ledger: Ledger
    session_texts: SessionTexts
    verifier: Verifier


def build_recordings(stores: Stores, recordings: Recordings, now: Clock, machine: Machine) -> RecordingServices:
    ledger = Ledger(stores.ledger, now)
    checkpoints = Checkpoints(
        stores.checkpoints, stores.ledger_keys, ledger, machine.anchors, machine.checkpoint_interval, now
    )
    return RecordingServices(
        checkpoints=checkpoints,
        exports=Exports(stores.ledger, ledger, checkpoints, machine.copies, now),
        keeper=Keeper(stores.leases, ledger, checkpoints, now),
        ledger=ledger,
        session_texts=SessionTexts(stores.session_texts, recordings),
        verifier=Verifier(stores.ledger, stores.ledger_keys, machine.copies),
    )
