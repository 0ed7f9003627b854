import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type FormEvent, useEffect, useState } from "react";
import { type LoginStep, logIn, loginMethodsQuery, providerUrl, userQuery } from "../../api/account";
import { setCsrfToken } from "../../api/client";
import { nextPath, providerFailure } from "../../engines/next";
import { common } from "../../messages/common";
import { Button } from "../../parts/button";
import styles from "../../parts/entrance.module.css";
import { Field } from "../../parts/field";
import { MarkedText } from "../../parts/marked-text";
import { Failure, Notice } from "../../parts/notice";
import { text } from "./messages";
import { SecondFactor } from "./second-factor";

/** Log in with a password and a second factor, or at the identity provider of the organisation. */
export function LoginScreen() {
  const search = useSearch({ from: "/login" });
  const organization = search.organization ?? "";
  const failure = providerFailure(search.next);
  const methods = useQuery(loginMethodsQuery(organization));
  const [step, setStep] = useState<LoginStep | null>(null);
  const complete = useCompletion();
  const title = step ? text.factor.title : text.login.title;
  useEffect(() => {
    document.title = `${title} · ${common.product}`;
  }, [title]);
  const follow = (answer: LoginStep) => (answer.ticket ? setStep(answer) : complete(answer));

  return (
    <main className={styles.login}>
      <h1>
        <img src="/icon.svg" alt="" width="24" height="24" />
        {title}
      </h1>
      {failure && (
        <Notice kind="refused">
          <p>{text.login.providerFailed}</p>
          <p>
            <MarkedText text={failure} />
          </p>
        </Notice>
      )}
      {organization && <p>{text.login.organization(organization)}</p>}
      {methods.error && <Failure error={methods.error} onRetry={() => void methods.refetch()} />}
      {methods.data?.setup_required && (
        <Notice kind="info">
          <p>{text.login.setupRequired}</p>
        </Notice>
      )}
      {step && <SecondFactor step={step} onDone={complete} onBack={() => setStep(null)} />}
      {!step && (methods.data?.auth_method === "local" || methods.data?.auth_method === "ldap") && (
        <PasswordForm organization={organization} isInDirectory={methods.data.auth_method === "ldap"} onDone={follow} />
      )}
      {(methods.data?.auth_method === "oidc" || methods.data?.auth_method === "saml") && (
        <ProviderButton
          method={methods.data.auth_method}
          name={methods.data.idp_provider_name}
          next={nextPath(search.next, window.location.origin)}
          organization={organization}
        />
      )}
    </main>
  );
}

/** Return what completes a login: the data of a previous user goes, and the page that needed the login opens. */
export function useCompletion(): (answer: LoginStep) => void {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const { next } = useSearch({ strict: false }) as { next?: string };
  return (answer) => {
    setCsrfToken(answer.csrf_token);
    queries.clear();
    const goOn = () => navigate({ href: nextPath(next, window.location.origin) });
    void queries.fetchQuery(userQuery).then(goOn, goOn); // what is wrong, that screen says
  };
}

interface PasswordFormProps {
  organization: string;
  /** An LDAP directory has the passwords, and its users have names. */
  isInDirectory: boolean;
  onDone: (answer: LoginStep) => void;
}

function PasswordForm({ organization, isInDirectory, onDone }: PasswordFormProps) {
  const attempt = useMutation({
    mutationFn: (form: FormData) => logIn(String(form.get("email")), String(form.get("password")), organization),
    onSuccess: onDone,
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    attempt.mutate(new FormData(event.currentTarget));
  };
  return (
    <form onSubmit={submit} className={styles.form}>
      {attempt.error && <Failure error={attempt.error} />}
      <Field
        name="email"
        type={isInDirectory ? "text" : "email"}
        label={isInDirectory ? text.login.userName : text.login.email}
        autoComplete="username"
        autoFocus
        isRequired
      />
      <Field
        name="password"
        type="password"
        label={text.login.password}
        autoComplete="current-password"
        isRequired
        maxLength={1024}
      />
      <Button type="submit" kind="primary" isDisabled={attempt.isPending}>
        {text.login.submit}
      </Button>
    </form>
  );
}

interface ProviderProps {
  method: "oidc" | "saml";
  name: string;
  next: string;
  organization: string;
}

function ProviderButton({ method, name, next, organization }: ProviderProps) {
  const leave = useMutation({
    mutationFn: () => providerUrl(method, next, organization),
    onSuccess: (url) => window.location.assign(url),
  });
  return (
    <>
      {leave.error && <Failure error={leave.error} />}
      <Button kind="primary" onPress={() => leave.mutate()} isDisabled={leave.isPending || leave.isSuccess}>
        {text.login.withProvider(name)}
      </Button>
    </>
  );
}
