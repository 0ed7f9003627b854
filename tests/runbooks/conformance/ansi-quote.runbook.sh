printf ${{ .x | squote }}
