"""Recordings after they are written: read as pages, live and as files; searched; proved by the ledger, and exported."""
