"""The one contract between wire and inspection: events, verdicts and the pipeline between them.

A protocol turns bytes into events; an interceptor answers each event with a verdict; neither knows
the other. The pipeline is synchronous, ordered and fails closed: an interceptor that raises refuses.
"""
