UPDATE dbo.People SET city = N{{ .city | squote }} WHERE id = {{ .id | type "number" }};
