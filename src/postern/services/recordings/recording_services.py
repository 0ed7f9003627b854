"""The services of recordings after they are written, built together."""

from __future__ import annotations

from dataclasses import dataclass

from postern.services.identity.identity_services import IdentityServices
from postern.services.recordings.checkpoints import Checkpoints
from postern.services.recordings.concurrency_limit import ConcurrencyLimit
from postern.services.recordings.download_links import DownloadLinks
from postern.services.recordings.exports import Exports
from postern.services.recordings.holds import Holds
from postern.services.recordings.ledger_worker import LedgerWorker
from postern.services.recordings.purges import PurgeRegister, Purges
from postern.services.recordings.recording_ledger import Ledger
from postern.services.recordings.recording_retention import RetentionRules
from postern.services.recordings.session_proofs import SessionProofs
from postern.services.recordings.texts import SessionTexts
from postern.services.recordings.verifier import RecordVerifier
from postern.services.server.machine_facts import MachineFacts
from postern.services.server.server_services import ServerServices
from postern.services.sessions import Sessions
from postern.store.ports.common_ports import Clock
from postern.store.ports.target_ports import Recordings
from postern.store.stores import Stores

WATCHES_EACH, WATCHES = 4, 64  # streams of running sessions at once


@dataclass(frozen=True)
class RecordingServices:
    checkpoints: Checkpoints
    download_links: DownloadLinks
    exports: Exports
    holds: Holds
    ledger_worker: LedgerWorker
    ledger: Ledger
    purge_register: PurgeRegister
    purges: Purges
    retention: RetentionRules
    session_proofs: SessionProofs
    session_texts: SessionTexts
    verifier: RecordVerifier
    watchers: ConcurrencyLimit


def build_recordings(
    stores: Stores,
    recordings: Recordings,
    now: Clock,
    machine: MachineFacts,
    server: ServerServices,
    identity: IdentityServices,
    sessions: Sessions,
) -> RecordingServices:
    ledger = Ledger(stores.ledger, now)
    checkpoints = Checkpoints(
        stores.checkpoints, stores.ledger_keys, ledger, machine.anchors, machine.checkpoint_interval, now
    )
    register = PurgeRegister(stores.purges, ledger, server.audit, now)
    return RecordingServices(
        checkpoints=checkpoints,
        download_links=DownloadLinks(
            sessions=sessions,
            tokens=identity.tokens,
            authentication=identity.authentication,
            now=now,
        ),
        exports=Exports(stores.ledger, ledger, checkpoints, machine.copies, now),
        holds=Holds(stores.holds, sessions, ledger, now),
        ledger_worker=LedgerWorker(stores.leases, ledger, checkpoints, now),
        ledger=ledger,
        purge_register=register,
        purges=Purges(stores.purges, stores.holds, sessions, register),
        retention=RetentionRules(stores.retentions, stores.connections, now),
        session_proofs=SessionProofs(
            sessions, stores.ledger, stores.checkpoints, stores.ledger_keys, machine.copies, now
        ),
        session_texts=SessionTexts(stores.session_texts, recordings, now),
        verifier=RecordVerifier(stores.ledger, stores.ledger_keys, machine.copies, now),
        watchers=ConcurrencyLimit("watch sessions", each=WATCHES_EACH, most=WATCHES),
    )
