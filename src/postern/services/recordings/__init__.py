"""Services about recordings as a whole: the ledger that proves them, its checkpoints, exports."""
