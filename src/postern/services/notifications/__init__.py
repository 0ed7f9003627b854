"""Post-processing of sessions and writes: reports, and events for sinks."""
