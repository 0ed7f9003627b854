"""Traces for a collector: the only place that knows OpenTelemetry's library, imported where one is set up."""
