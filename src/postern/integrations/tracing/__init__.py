"""Export of traces to a collector: the only package that uses OpenTelemetry's library, imported when one is
configured."""
