DO $body$
BEGIN
  PERFORM set_config('app.note', {{ .note | squote }}, false);
END
$body$;
