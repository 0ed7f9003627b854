"""Effects of commands: what each would do, for guardrails."""
