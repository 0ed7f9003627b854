"""The steady state of links that carry HTTP: judges requests, masks responses, redacts what is recorded.

`http_dialect` is what an application adds to it.
"""
