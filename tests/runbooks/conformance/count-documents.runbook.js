// counts the documents of a collection
const filter = { status: {{ .status | required "which status?" | dquote }}, owner: {{ .owner | squote }} };
print(db.getCollection({{ .collection | required "which collection?" | squote }}).countDocuments(filter));
