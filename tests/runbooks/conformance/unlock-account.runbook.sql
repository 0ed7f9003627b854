BEGIN;
UPDATE accounts SET locked_until = NULL, unlock_reason = {{ .reason | required "why is it unlocked?" | minlength 10 | maxlength 200 | squote }}
 WHERE id = {{ .account_id | required "which account?" | pattern "^[0-9]+$" }};
COMMIT;
