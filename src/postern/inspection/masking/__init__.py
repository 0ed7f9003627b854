"""Masking: hides sensitive values in answers, whatever statement produced them.

One module for each kind of information says what a value looks like and what stands in its place;
`detectors` puts them in order; `texts`, `json_documents` and `scalars` apply them to what a column
holds; `interceptor` is the interceptor. A replacement holds no quote, comma, brace, backslash or blank, so that
array literals, CSV and JSON strings around it stay valid.
"""
