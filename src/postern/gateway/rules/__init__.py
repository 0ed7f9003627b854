"""Statements that rules hold, and the evaluation of long ones."""
