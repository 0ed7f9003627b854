import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useUser } from "../../api/account";
import { api, unwrap, unwrapVersioned, type Versioned } from "../../api/client";
import { ApiError } from "../../api/errors";
import type { components } from "../../api/schema";
import { common } from "../../messages/common";
import { Button } from "../../parts/button";
import { Facts } from "../../parts/facts";
import { Field, LongField } from "../../parts/field";
import { Form } from "../../parts/form";
import { Failure, Notice } from "../../parts/notice";
import { Skeleton } from "../../parts/table";
import { Time } from "../../parts/time";
import { text } from "./messages";
import { SettingsPage } from "./settings-page";

type Organisation = components["schemas"]["OrganisationAnswer"];

/** The name of the organisation, the groups that give roles, and the help for users who were denied something. */
export function OrganisationScreen() {
  const [isSaved, setSaved] = useState(false);
  const query = useQuery({
    queryKey: ["organisation"],
    staleTime: Number.POSITIVE_INFINITY, // a newer version would take away what is being typed
    gcTime: 0,
    queryFn: () => unwrapVersioned(api.GET("/api/orgs/self")),
  });
  return (
    <SettingsPage path="/settings">
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton />}
      {query.data && (
        <OrganisationForm
          key={query.data.version}
          saved={query.data}
          isSaved={isSaved}
          onSaved={() => setSaved(true)}
          onReload={() => void query.refetch()}
        />
      )}
    </SettingsPage>
  );
}

interface FormProps {
  saved: Versioned<Organisation>;
  isSaved: boolean;
  onSaved: () => void;
  onReload: () => void;
}

function OrganisationForm({ saved, isSaved, onSaved, onReload }: FormProps) {
  const isReadOnly = useUser()?.role !== "admin";
  const queries = useQueryClient();
  const [draft, setDraft] = useState(saved.item);
  const set = (part: Partial<Organisation>) => setDraft((before) => ({ ...before, ...part }));
  const save = useMutation({
    mutationFn: () => {
      const { name, admin_role_name, auditor_role_name, access_help } = draft;
      const body = { name, admin_role_name, auditor_role_name, access_help };
      return unwrap(api.PUT("/api/orgs/self", { params: { header: { "If-Match": saved.version } }, body }));
    },
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["user"] });
      onSaved();
      onReload();
    },
  });
  const isStale = save.error instanceof ApiError && save.error.status === 412;
  return (
    <>
      <Form
        submit={text.organisation.save}
        onSubmit={() => save.mutate()}
        isBusy={save.isPending || isReadOnly}
        error={isStale ? null : save.error}
        isSaved={isSaved && draft === saved.item}
      >
        <Field
          label={text.organisation.name}
          value={draft.name}
          onChange={(name) => set({ name })}
          isRequired
          isDisabled={isReadOnly}
        />
        <Field
          label={text.organisation.adminGroup}
          hint={text.organisation.adminGroupHint}
          value={draft.admin_role_name}
          onChange={(admin_role_name) => set({ admin_role_name })}
          isRequired
          isDisabled={isReadOnly}
        />
        <Field
          label={text.organisation.auditorGroup}
          hint={text.organisation.auditorGroupHint}
          value={draft.auditor_role_name}
          onChange={(auditor_role_name) => set({ auditor_role_name })}
          isRequired
          isDisabled={isReadOnly}
        />
        <LongField
          label={text.organisation.accessHelp}
          hint={text.organisation.accessHelpHint}
          value={draft.access_help}
          onChange={(access_help) => set({ access_help })}
          isDisabled={isReadOnly}
        />
        {isStale && (
          <Notice kind="held">
            <p>{common.changedMeanwhile}</p>
            <Button onPress={onReload}>{common.loadAgain}</Button>
          </Notice>
        )}
      </Form>
      <Facts
        facts={[
          [text.organisation.created, <Time key="created" at={saved.item.created_at} isExact />],
          [text.organisation.id, <code key="id">{saved.item.id}</code>],
        ]}
      />
    </>
  );
}
