"""Playbooks, conformance suites and fakes: shipped, so that authors of plug-ins can use them."""
