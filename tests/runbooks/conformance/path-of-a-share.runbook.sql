UPDATE shares SET path = {{ .path | squote }} WHERE name = {{ .name | squote }};
