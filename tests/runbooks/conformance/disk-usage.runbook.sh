set -eu
du -sh -- {{ .path | required "which folder?" | squote }} | sort -h | tail -n {{ .lines | type "number" | default "20" }}
