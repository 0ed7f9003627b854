"""The data plane's process: listeners, admission, the registry of live sessions, the supervisor."""
