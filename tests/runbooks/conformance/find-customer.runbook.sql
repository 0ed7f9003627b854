-- Finds a customer by their e-mail address.
SELECT id, name, created_at
  FROM customers
 WHERE email = {{ .email | required "whose account?" | type "email" | description "Address of the account" | squote }};
