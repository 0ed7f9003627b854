-- asked by {{ .who | squote }}
/* because {{ .why | squote }} */
SELECT now();
