SELECT count(*) FROM events
WHERE at >= {{ .since | required "since when?" | type "date" | squote }}
{{- if .kind }}
  AND kind = {{ .kind | squote }}
{{- end }}
{{- with .country }}
  AND country = {{ . | squote }}
{{- else }}
  AND country IS NOT NULL
{{- end }};
