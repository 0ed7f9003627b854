"""Recordings of sessions, such that a crash of the gateway loses nothing that a client received.

Each session has an append-only spool, in the record format. After a crash, the spools of a dead worker are recovered.
Closed spools are compressed, and encrypted for the blob store (`cipher.py`). Knows events, never protocols.
"""
