import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useUser } from "../../api/account";
import { api, unwrap } from "../../api/client";
import { usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { Button } from "../../parts/button";
import { Chip } from "../../parts/chip";
import { Toggle } from "../../parts/choice";
import { Confirm } from "../../parts/confirm";
import { Copy } from "../../parts/copy";
import { Dialog, ShownOnce } from "../../parts/dialog";
import { Field } from "../../parts/field";
import { Form } from "../../parts/form";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { text } from "./messages";
import { SettingsPage } from "./settings-page";

type Organisation = components["schemas"]["OrganisationAnswer"];
type NewOrganisation = components["schemas"]["NewOrganisationAnswer"];

const COLUMNS: Column<Organisation>[] = [
  { title: text.organisations.name, cell: ({ name }) => <MarkedText text={name} /> },
  { title: text.organisations.created, cell: ({ created_at }) => <Time at={created_at} isExact /> },
  {
    title: text.organisations.state,
    cell: ({ deleting_at }) => (
      <Chip kind={deleting_at ? "held" : "ok"}>
        {deleting_at ? text.organisations.deleting : text.organisations.active}
      </Chip>
    ),
  },
];

/** All organisations of this gateway, for those who run it. */
export function OrganisationsScreen() {
  const own = useUser()?.org_id;
  const [isAdding, setAdding] = useState(false);
  const [created, setCreated] = useState<NewOrganisation | null>(null);
  const queries = useQueryClient();
  const refresh = () => void queries.invalidateQueries({ queryKey: ["organisations"] });
  const pages = usePages(["organisations"], (place) => unwrap(api.GET("/api/orgs", { params: { query: place } })));
  const actions = {
    title: text.organisations.actions,
    cell: (organisation: Organisation) =>
      organisation.id !== own &&
      organisation.deleting_at === null && <Delete organisation={organisation} onDone={refresh} />,
  };
  return (
    <SettingsPage
      path="/settings/organisations"
      aside={
        <Button kind="primary" onPress={() => setAdding(true)}>
          {text.organisations.new}
        </Button>
      }
    >
      <p className="secondary">{text.organisations.about}</p>
      <List
        label={text.views.organisations}
        pages={pages}
        columns={[...COLUMNS, actions]}
        keyOf={({ id }) => id}
        none={null}
      />
      <Dialog title={text.organisations.new} isOpen={isAdding} onClose={() => setAdding(false)}>
        <Create
          onCreated={(organisation) => {
            setAdding(false);
            setCreated(organisation);
            refresh();
          }}
        />
      </Dialog>
      <ShownOnce title={text.organisations.linkTitle} isOpen={created !== null} onClose={() => setCreated(null)}>
        <p>{text.organisations.linkHint(created?.admin_email ?? "")}</p>
        <Copy label={text.organisations.link} text={created?.setup_url ?? ""} />
      </ShownOnce>
    </SettingsPage>
  );
}

function Create({ onCreated }: { onCreated: (organisation: NewOrganisation) => void }) {
  const [name, setName] = useState("");
  const [email, setEmail] = useState("");
  const [hasAgent, setAgent] = useState(false);
  const create = useMutation({
    gcTime: 0,
    mutationFn: () =>
      unwrap(api.POST("/api/orgs", { body: { name, admin_email: email.trim(), embedded_agent: hasAgent } })),
    onSuccess: onCreated,
  });
  return (
    <Form
      submit={text.organisations.new}
      onSubmit={() => create.mutate()}
      isBusy={create.isPending}
      error={create.error}
    >
      <Field label={text.organisations.name} value={name} onChange={setName} isRequired />
      <Field label={text.organisations.adminEmail} type="email" value={email} onChange={setEmail} isRequired />
      <Toggle
        label={text.organisations.embeddedAgent}
        hint={text.organisations.embeddedAgentHint}
        isOn={hasAgent}
        onChange={setAgent}
      />
    </Form>
  );
}

function Delete({ organisation: { id, name }, onDone }: { organisation: Organisation; onDone: () => void }) {
  const remove = () => {
    const params = { path: { org_id: id }, query: { name } };
    return unwrap(api.DELETE("/api/orgs/{org_id}", { params }));
  };
  return (
    <Confirm
      label={text.organisations.delete}
      title={text.organisations.deleteTitle(name)}
      typed={name}
      action={remove}
      onDone={onDone}
    >
      {text.organisations.deleteText}
    </Confirm>
  );
}
