"""Statements, parsed: what each would do, told in the words of `domain.statement`, by one parser for each dialect.

A parser never guesses in favour of a statement. What it cannot parse, and what its text alone does not tell (dynamic
SQL, blocks of code, functions nobody knows), has the effect `unknown`, and whoever asked decides what that means.
"""
