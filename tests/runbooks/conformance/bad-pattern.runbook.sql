SELECT {{ .x | pattern "(a" }};
