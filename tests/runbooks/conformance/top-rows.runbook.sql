SELECT TOP ({{ .n | type "number" | default "10" }}) * FROM {{ .table | required "which table?" | quotechar "[" }} WHERE [name] = {{ .name | squote }};
