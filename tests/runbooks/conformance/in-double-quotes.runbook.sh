echo "hello {{ .name | squote }}, today is $(date -d {{ .day | squote }} +%A)"
