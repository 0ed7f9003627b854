import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { userQuery } from "../../api/account";
import { api, replaceLogin, setCsrfToken, unwrap } from "../../api/client";
import { counted } from "../../messages";
import { Field } from "../../parts/field";
import { Form } from "../../parts/form";
import { Notice } from "../../parts/notice";
import { Section } from "../../parts/section";
import { text } from "./messages";

const SHORTEST = 12;

/** Change the password. All other logins end, and this browser gets a new one. */
export function PasswordSection() {
  const queries = useQueryClient();
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const change = useMutation({
    mutationFn: () =>
      replaceLogin(
        unwrap(api.PUT("/api/users/self/password", { body: { current_password: current, new_password: next } })),
      ),
    onSuccess: (answer) => {
      setCsrfToken(answer.csrf_token);
      setCurrent("");
      setNext("");
      void queries.invalidateQueries({ queryKey: ["logins"] });
      void queries.invalidateQueries({ queryKey: userQuery.queryKey }); // this login is a new one, with its own life
    },
  });
  return (
    <Section title={text.password}>
      <Form
        submit={text.changePassword}
        onSubmit={() => change.mutate()}
        isBusy={change.isPending}
        error={change.error}
      >
        <Field
          label={text.currentPassword}
          type="password"
          autoComplete="current-password"
          value={current}
          onChange={setCurrent}
          maxLength={1024}
          isRequired
        />
        <Field
          label={text.newPassword}
          hint={`${text.rule} ${text.passwordHint}`}
          type="password"
          autoComplete="new-password"
          value={next}
          onChange={setNext}
          maxLength={1024}
          isRequired
          validate={(value) => (value.length < SHORTEST ? counted(text.missing, SHORTEST - value.length) : null)}
        />
        {change.isSuccess && !next && (
          <Notice kind="ok">
            <p>{text.changedPassword}</p>
          </Notice>
        )}
      </Form>
    </Section>
  );
}
