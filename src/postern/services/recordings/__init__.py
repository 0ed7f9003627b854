"""Recordings once they are written: read as pages, live and as files; searched; proven by the ledger, and exported."""
