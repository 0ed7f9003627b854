import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { useNames } from "../../api/names";
import { usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { useUser } from "../../app/user";
import { common } from "../../messages/common";
import { Chip } from "../../parts/chip";
import { Choice } from "../../parts/choice";
import { Copy } from "../../parts/copy";
import { ShownOnce } from "../../parts/dialog";
import { Field } from "../../parts/field";
import { FormDialog } from "../../parts/form-dialog";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Names } from "../../parts/names";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { type Lifetime, secondsOf } from "./lifetimes";
import { text } from "./messages";
import { NameList, PeoplePage } from "./people-page";
import { type ApiKey, addressOf, apiKeys } from "./resources";

type IssuedKey = components["schemas"]["IssuedApiKeyAnswer"];
const KINDS = { active: "ok", expired: "off", revoked: "refused" } as const;
const ITSELF = "";

export function KeyStatus({ status }: { status: ApiKey["status"] }) {
  return <Chip kind={KINDS[status]}>{text.keyStatuses[status]}</Chip>;
}

const COLUMNS: Column<ApiKey>[] = [
  {
    title: common.name,
    cell: (key) => (
      <Link to="/people/api-keys/$key" params={{ key: addressOf(key) }} className="mono">
        <MarkedText text={key.name} />
      </Link>
    ),
  },
  {
    title: text.actsAs,
    cell: ({ service_account, groups }) =>
      service_account ? <MarkedText text={service_account} /> : <NameList names={groups} />,
  },
  { title: text.status, cell: ({ status }) => <KeyStatus status={status} /> },
  { title: text.createdBy, cell: ({ created_by }) => <MarkedText text={created_by} /> },
  { title: text.lastUsed, cell: ({ last_used_at }) => (last_used_at ? <Time at={last_used_at} /> : text.never) },
  { title: text.expires, cell: ({ expires_at }) => (expires_at ? <Time at={expires_at} /> : text.noExpiry) },
];

/** All API keys, also revoked ones. */
export function ApiKeysScreen() {
  const user = useUser();
  const pages = usePages([apiKeys.path, "list"], (place) => apiKeys.list(place));
  return (
    <PeoplePage title={text.apiKeys} aside={user.is_admin && <NewApiKey />}>
      <List
        label={text.apiKeys}
        pages={pages}
        columns={COLUMNS}
        keyOf={(row) => row.id}
        none={
          <div className="stack">
            <p>{text.noneKeys}</p>
            <Copy label={common.commandLine} text="postern admin api-keys create ci" />
          </div>
        }
      />
    </PeoplePage>
  );
}

interface KeyFields {
  name: string;
  account: string;
  groups: string[];
  networks: string[];
  lifetime: Lifetime;
}
const BLANK: KeyFields = { name: "", account: ITSELF, groups: [], networks: [], lifetime: "quarter" };

function NewApiKey() {
  const queries = useQueryClient();
  const [fields, setFields] = useState(BLANK);
  const [issued, setIssued] = useState<IssuedKey | null>(null);
  const create = async () => {
    const { name, account, groups, networks, lifetime } = fields;
    const body = {
      name: name.trim(),
      ...(account === ITSELF ? { groups } : { service_account: account }),
      allowed_networks: networks,
      expires_in_seconds: secondsOf(lifetime),
    };
    setIssued(await unwrap(api.POST("/api/api-keys", { body })));
    void queries.invalidateQueries({ queryKey: [apiKeys.path] });
  };
  return (
    <>
      <FormDialog
        label={text.newKey}
        title={text.newKeyTitle}
        submit={text.newKey}
        kind="primary"
        onOpen={() => setFields(BLANK)}
        action={create}
      >
        <NewKeyFields fields={fields} set={(part) => setFields((before) => ({ ...before, ...part }))} />
      </FormDialog>
      <ShownOnce title={text.keyCreated(issued?.name ?? "")} isOpen={issued !== null} onClose={() => setIssued(null)}>
        <Copy label={text.key} text={issued?.key ?? ""} />
      </ShownOnce>
    </>
  );
}

function NewKeyFields({ fields, set }: { fields: KeyFields; set: (part: Partial<KeyFields>) => void }) {
  const groupNames = useNames("/api/users/groups");
  const accounts = useNames("/api/serviceaccounts");
  const lifetimes = (["month", "quarter", "year", "ever"] as const).map(
    (name) => [name, text.lifetimes[name]] as const,
  );
  return (
    <>
      <Field
        label={common.name}
        hint={text.keyNameHint}
        value={fields.name}
        onChange={(name) => set({ name })}
        isRequired
      />
      {accounts.length > 0 && (
        <Choice
          label={text.actsAs}
          value={fields.account}
          options={[[ITSELF, text.itself], ...accounts.map((name) => [name, name] as const)]}
          onChange={(account) => set({ account })}
        />
      )}
      {fields.account === ITSELF && (
        <Names
          label={text.groupsOf}
          hint={text.groupsHint}
          value={fields.groups}
          onChange={(groups) => set({ groups })}
          options={groupNames}
        />
      )}
      <Names
        label={text.networks}
        hint={text.networksHint}
        value={fields.networks}
        onChange={(networks) => set({ networks })}
      />
      <Choice
        label={text.lifetime}
        value={fields.lifetime}
        options={lifetimes}
        onChange={(lifetime) => set({ lifetime })}
      />
    </>
  );
}
