const name = {{ .name | quotechar "`" }};
print(`hello ${ {{ .name | squote }} }`);
