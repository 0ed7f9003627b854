KILL {{ if eq .what "query" }}QUERY {{ end }}{{ .id | required "which thread?" | type "number" }};
-- {{ .what | type "select" | options "query" "connection" | required "what?" }}
