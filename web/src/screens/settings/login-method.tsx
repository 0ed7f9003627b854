import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useUser } from "../../api/account";
import { api, unwrap } from "../../api/client";
import { ApiError } from "../../api/errors";
import { Choice, Toggle } from "../../parts/choice";
import { Field } from "../../parts/field";
import { Form } from "../../parts/form";
import { Failure } from "../../parts/notice";
import { Skeleton } from "../../parts/table";
import { Lockout } from "./lockout";
import { draftOfLogin, type LoginDraft, type LoginSettings, loginBody } from "./login-draft";
import { LdapFields, OidcFields, SamlFields } from "./login-fields";
import { text } from "./messages";
import { SettingsPage } from "./settings-page";

const METHODS = Object.entries(text.login.methods) as [LoginDraft["method"], string][];

/** How users of the organisation log in. */
export function LoginMethodScreen() {
  const query = useQuery({
    queryKey: ["login settings"],
    staleTime: Number.POSITIVE_INFINITY, // a newer version would take away what is being typed
    gcTime: 0,
    queryFn: () => unwrap(api.GET("/api/serverconfig/auth")),
  });
  return (
    <SettingsPage path="/settings/login">
      <p className="secondary">{text.login.about}</p>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton />}
      {query.data && <LoginForm settings={query.data} />}
    </SettingsPage>
  );
}

function LoginForm({ settings }: { settings: LoginSettings }) {
  const isReadOnly = useUser()?.role !== "admin";
  const [draft, setDraft] = useState(() => draftOfLogin(settings));
  const queries = useQueryClient();
  const set = (part: Partial<LoginDraft>) => setDraft((before) => ({ ...before, ...part }));
  const save = useMutation({
    mutationFn: (confirm: boolean) => unwrap(api.PUT("/api/serverconfig/auth", { body: loginBody(draft, confirm) })),
    onSuccess: async (saved) => {
      set({ clientSecret: "", bindPassword: "" });
      queries.setQueryData(["login settings"], saved);
      await queries.invalidateQueries({ queryKey: ["login methods"] });
    },
  });
  const isLockout = save.error instanceof ApiError && save.error.status === 409;
  return (
    <Form
      submit={text.login.save}
      onSubmit={() => save.mutate(false)}
      isBusy={save.isPending || isReadOnly}
      error={isLockout ? null : save.error}
      isSaved={save.isSuccess}
    >
      <Choice
        label={text.login.method}
        value={draft.method}
        options={METHODS}
        onChange={(method) => set({ method })}
        isDisabled={isReadOnly}
      />
      {draft.method !== "local" && (
        <Field
          label={text.login.providerName}
          hint={text.login.providerNameHint}
          value={draft.providerName}
          onChange={(providerName) => set({ providerName })}
          isDisabled={isReadOnly}
        />
      )}
      {draft.method === "ldap" && (
        <LdapFields
          draft={draft}
          set={set}
          hasSecret={settings.ldap_config?.has_bind_password ?? false}
          isReadOnly={isReadOnly}
        />
      )}
      {draft.method === "oidc" && (
        <OidcFields
          draft={draft}
          set={set}
          hasSecret={settings.oidc_config?.has_client_secret ?? false}
          isReadOnly={isReadOnly}
        />
      )}
      {draft.method === "saml" && <SamlFields draft={draft} set={set} isReadOnly={isReadOnly} />}
      <Toggle
        label={text.login.secondFactor}
        hint={text.login.secondFactorHint}
        isOn={draft.requiresSecondFactor}
        onChange={(requiresSecondFactor) => set({ requiresSecondFactor })}
        isDisabled={isReadOnly}
      />
      {isLockout && save.error && (
        <Lockout
          message={save.error.message}
          adminGroup={settings.admin_role_name}
          onAnyway={() => save.mutateAsync(true)}
        />
      )}
    </Form>
  );
}
