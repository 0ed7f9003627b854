{{ .password | type "password" | required "the password" | asenv "PGPASSWORD" -}}
{{ .host | required "the host" | pattern "^[a-z0-9.-]+$" | asenv "PGHOST" -}}
psql -U {{ .user | default "postgres" | squote }} -c 'select version()'
