"""Stores of users and programs, their auth methods, and their organisations."""
