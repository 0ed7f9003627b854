cat > /tmp/motd <<EOF
Message of {{ .who | squote }}
EOF
echo {{ .who | squote }}
