"""SQL parsers, one per dialect, which describe the effect of each statement in terms of `domain.statement`.

A parser never guesses in favour of a statement. If it cannot parse a statement, or the text alone does not tell the
effect (dynamic SQL, code blocks, unknown functions), the effect is `unknown`. The caller decides what that means.
"""
