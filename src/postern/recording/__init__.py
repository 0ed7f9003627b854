"""What a session did, kept so that a crash of the gateway loses nothing a client was shown.

An append-only spool per session, the record format and its reader, recovery of what a dead worker
left, compression at close, and the encryption of what is stored (`cipher.py`). Knows events, never protocols.
"""
