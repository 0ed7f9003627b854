"""Recordings once they are written: what is searched in them, the ledger that proves them, checkpoints, exports."""
