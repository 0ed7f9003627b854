"""Stores of rules about access, statements and output."""
