import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useEffect, useState } from "react";
import { setUp } from "../../api/account";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Button } from "../../parts/button";
import styles from "../../parts/entrance.module.css";
import { Field } from "../../parts/field";
import { Failure, Notice } from "../../parts/notice";
import { useCompletion } from "../login/login";
import { text } from "./messages";

const SHORTEST = 12;

/** Set a password with the link that a new user got. Its token is in the fragment, which no server sees. */
export function SetupScreen() {
  const [token] = useState(() => new URLSearchParams(window.location.hash.slice(1)).get("token") ?? "");
  useEffect(() => {
    window.history.replaceState(window.history.state, "", window.location.pathname);
    document.title = `${text.title} · ${common.product}`;
  }, []);
  return (
    <main className={styles.login}>
      <h1>
        <img src="/icon.svg" alt="" width="24" height="24" />
        {text.title}
      </h1>
      {token ? (
        <SetupForm token={token} />
      ) : (
        <Notice kind="held">
          <p>{text.noToken}</p>
        </Notice>
      )}
    </main>
  );
}

function SetupForm({ token }: { token: string }) {
  const complete = useCompletion();
  const attempt = useMutation({
    mutationFn: (form: FormData) => setUp(token, String(form.get("password")), String(form.get("name")).trim()),
    onSuccess: complete,
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    attempt.mutate(new FormData(event.currentTarget));
  };
  return (
    <form onSubmit={submit} className={styles.form}>
      <p>{text.lead}</p>
      {attempt.error && <Failure error={attempt.error} />}
      <Field name="name" label={text.name} autoComplete="name" autoFocus />
      <Field
        name="password"
        type="password"
        label={text.password}
        hint={text.rule}
        autoComplete="new-password"
        isRequired
        maxLength={1024}
        validate={(value) => (value.length < SHORTEST ? counted(text.missing, SHORTEST - value.length) : null)}
      />
      <Button type="submit" kind="primary" isDisabled={attempt.isPending}>
        {text.submit}
      </Button>
    </form>
  );
}
