"""Proof that nobody changed the record: values in, values out, offline.

    segments   c(0) ── c(1) ── c(2) ── c(3)                     one chain for each session (domain/sessions/segment.py)
                                          │ last value, number, size
    ledger     h(0) ── h(1) ────────── h(2) ── h(3) ── …        one for each organisation
                       opened          closed  opened
                                                  │
    checkpoints                        Ed25519 {organisation, number, hash, at, key} ──▶ anchors outside

Each c and h is a SHA-256 over the one before it and what is added, so the newest checkpoint binds every entry before
it, and an entry `closed` every byte of its session's recording and every fact of its row. Who changes, removes, adds
or reorders anything below a checkpoint has to find a second input of SHA-256; who writes the history anew has to sign
it, and every checkpoint that lies in an anchor speaks against it. What lies after the newest checkpoint is not proven.

`canonical` JSON, the `ledger` and its hashes, `checkpoints` and the keys that are trusted, `verify` over iterators,
`package` the form of an export and `reading` it. Nothing here asks a store or a network.
"""
