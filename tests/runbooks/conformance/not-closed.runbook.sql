SELECT {{ if .x }}1;
