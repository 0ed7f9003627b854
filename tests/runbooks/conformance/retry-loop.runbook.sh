{{ range $i := 3 }}{{ if eq $i 1 }}{{ continue }}{{ end }}curl --retry {{ $i }} {{ $.url | required "which address?" | type "url" | squote }}
{{ end -}}
