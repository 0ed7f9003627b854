SELECT * FROM users WHERE name = '{{ .name | squote }}';
