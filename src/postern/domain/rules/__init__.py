"""Rules: access to connections, guardrails for statements, masking of output."""
