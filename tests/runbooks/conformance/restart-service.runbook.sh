#!/bin/bash
{{- /* which services may be restarted is decided here */ -}}
{{- $service := .service | required "which service?" | type "select" | options "nginx" "postgresql" "redis server" }}
systemctl {{ if eq .action "reload" }}reload{{ else if eq .action "stop" }}stop{{ else }}restart{{ end }} {{ $service | squote }}
systemctl status --no-pager {{ $service | squote }} || true
