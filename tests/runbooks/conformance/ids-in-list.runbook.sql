SELECT * FROM invoices WHERE number IN (
{{- range $i, $number := .numbers | required "one number at least" | type "textarea" | split "," }}
  {{- if $i }}, {{ end }}{{ $number | squote }}
{{- end }});
