"""Stores of the ledger, recordings and retention."""
