"""Tamper evidence for records: pure functions from values to values, which work offline.

    segments   c(0) ── c(1) ── c(2) ── c(3)                     one chain for each session (domain/sessions/segment.py)
                                          │ last value, number, size
    ledger     h(0) ── h(1) ────────── h(2) ── h(3) ── …        one for each organisation
                       opened          closed  opened
                                                  │
    checkpoints                        Ed25519 {organisation, number, hash, at, key} ──▶ anchors outside

Each c and h is the SHA-256 of its predecessor and of what is added. The newest checkpoint therefore binds every entry
before it, and an entry `closed` binds every byte of its session's recording and every fact of its row. Changing,
removing, adding or reordering anything below a checkpoint requires a collision of SHA-256. Rewriting the history
requires the signing key, and contradicts every checkpoint stored in an anchor. Nothing after the newest checkpoint is
proven.

`canonical` writes JSON, `proof_ledger` computes the ledger and its hashes, `proof_checkpoints` signs and trusts keys,
`verify` checks iterators, `package` defines the format of exports and `export_reading` reads it. Nothing here uses a
store or a network.
"""
