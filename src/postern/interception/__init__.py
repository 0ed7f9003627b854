"""Contract between protocols and inspection: events, verdicts and the pipeline.

A protocol turns bytes into events. An interceptor answers each event with a verdict. Neither knows the other. The
pipeline is synchronous, ordered and fails closed: if an interceptor raises, the event is denied.
"""
