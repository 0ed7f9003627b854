"""Interceptors: guard rails and masking.

They know events, never protocols, and hold no I/O: a verdict is a pure function of the event, the
rules and the counters of the session.
"""
