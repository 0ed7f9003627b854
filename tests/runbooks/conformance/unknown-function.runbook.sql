SELECT 1;
SELECT {{ .x | shellquote }};
