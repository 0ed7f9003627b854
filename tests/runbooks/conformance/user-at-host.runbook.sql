CREATE USER {{ .user | required "who?" | squote }}@{{ .host | default "%" | squote }} IDENTIFIED BY {{ .password | type "password" | required "a password" | squote }};
