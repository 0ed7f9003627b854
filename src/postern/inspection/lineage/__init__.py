"""Column lineage: which columns of the target's tables each column of an answer is made of (decision 0037).

Pure: the text of a statement and a snapshot of the target's catalogue in, sets of columns out. What cannot be known is
None, never a guess; what only filters, joins, groups or sorts is not in an answer and not in its lineage.
"""
