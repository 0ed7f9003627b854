"""Masking: hides sensitive values in answers, whatever statement produced them.

There are two ways. Detectors find values by their form: each module in `kinds` describes one kind of information and
its replacement, `catalogue` puts the detectors in order, and `joined_texts`, `json_documents` and `scalars` apply them
to the content of a column. Rules about columns mask by lineage, whatever the values look like (`masking_columns`). The
interceptor combines both. A replacement contains no quote, comma, brace, backslash or blank, so that surrounding array
literals, CSV and JSON strings stay valid.
"""
