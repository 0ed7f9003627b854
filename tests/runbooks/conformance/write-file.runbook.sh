umask 077
echo {{ .contents | type "file" | required "a file" | encodeb64 | squote }} | base64 -d > {{ .path | required "where to" | squote }}
