logger -t runbook -- {{ .message | required "what to log" | type "textarea" | dquote }}
