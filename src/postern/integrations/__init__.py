"""Adapters for external services, such as identity providers and key services, each behind a port."""
