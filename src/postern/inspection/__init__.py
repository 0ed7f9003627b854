"""Interceptors: guardrails and masking.

They know events, never protocols, and do no I/O. A verdict is a pure function of the event, the rules and the counters
of the session.
"""
