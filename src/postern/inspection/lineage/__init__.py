"""Column lineage: the table columns from which each column of an answer is derived (decision 0037).

A pure function from the text of a statement and a snapshot of the target's catalogue to sets of columns. Unknown
lineage is None, never a guess. Columns that only filter, join, group or sort are not in the answer, and so not in its
lineage.
"""
