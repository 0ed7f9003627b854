{{ define "step" }}echo {{ printf "==> %s" . | squote }}{{ end -}}
{{ template "step" "fetch" }}
git fetch origin {{ .branch | required "which branch?" | pattern `^[A-Za-z0-9._/-]+$` | squote }}
{{ template "step" .branch }}
git checkout {{ .branch | squote }}
{{- if eq .migrate "yes" }}
{{ template "step" "migrate" }}
make migrate
{{- end }}
{{- /* */ -}}
{{ .migrate | type "select" | options "yes" "no" | default "no" | printf "\n# migrate: %s" }}
