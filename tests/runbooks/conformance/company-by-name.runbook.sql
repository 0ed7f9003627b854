SELECT * FROM companies WHERE name = {{ .name | squote }} AND ROWNUM <= {{ .rows | type "number" | default "100" }};
