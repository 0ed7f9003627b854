UPDATE `customers` SET `name` = {{ .name | required "the new name" | squote }} WHERE `id` = {{ .id | type "number" | required "whose?" }};
SELECT {{ .column | default "name" | quotechar "`" }} FROM customers;
