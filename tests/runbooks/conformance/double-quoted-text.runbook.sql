SELECT * FROM notes WHERE body LIKE {{ printf "%%%s%%" .words | dquote }};
