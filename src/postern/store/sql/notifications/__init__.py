"""Stores of sinks, chats and reports."""
