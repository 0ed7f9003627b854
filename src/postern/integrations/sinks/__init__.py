"""Receivers of events: webhooks, syslog servers and OpenTelemetry collectors."""
