import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { api, unwrap } from "../../api/client";
import { useNames } from "../../api/names";
import { usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { useUser } from "../../app/user";
import { common } from "../../messages/common";
import { Choice, Toggle } from "../../parts/choice";
import { Confirm } from "../../parts/confirm";
import { Facts } from "../../parts/facts";
import { Field } from "../../parts/field";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Names } from "../../parts/names";
import { Failure } from "../../parts/notice";
import { Page } from "../../parts/page";
import { ResourceEditor, useResource } from "../../parts/resource-editor";
import { Section } from "../../parts/section";
import { Skeleton } from "../../parts/table";
import { Time } from "../../parts/time";
import { KeyStatus } from "./api-keys";
import { type Lifetime, secondsOf } from "./lifetimes";
import { text } from "./messages";
import { NameList, Role } from "./people-page";
import { type ApiKey, type ApiKeyDraft, addressOf, apiKeys } from "./resources";

type Issued = components["schemas"]["KeyCredentialAnswer"];

/** One API key: never the key itself, which was shown when it was created. */
export function ApiKeyScreen() {
  const { key: name } = useParams({ from: "/shell/people/api-keys/$key" });
  const { is_admin } = useUser();
  const query = useResource(apiKeys, name);
  const key = query.data?.item;
  return (
    <Page title={key?.name ?? name} aside={<Link to="/people/api-keys">{text.allKeys}</Link>}>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton />}
      {key && (
        <>
          <Facts facts={factsOf(key)} />
          {is_admin && <Revocation apiKey={key} />}
          <IssuedCredentials apiKey={key} />
          {is_admin && key.status !== "revoked" && <ApiKeyEditor name={name} />}
        </>
      )}
    </Page>
  );
}

function factsOf(key: ApiKey): [string, ReactNode][] {
  const facts: [string, ReactNode][] = [
    [text.status, <KeyStatus key="status" status={key.status} />],
    [text.key, <code key="key">{key.masked_key}</code>],
    [text.role, <Role key="role" role={key.role} />],
    [text.actsAs, key.service_account ? <MarkedText key="account" text={key.service_account} /> : text.itself],
    [text.groupsOf, <NameList key="groups" names={key.groups} none={common.none} />],
    [text.networks, <NameList key="networks" names={key.allowed_networks} none={text.anyNetwork} />],
    [text.expires, key.expires_at ? <Time key="expires" at={key.expires_at} /> : text.noExpiry],
    [text.lastUsed, key.last_used_at ? <Time key="used" at={key.last_used_at} /> : text.never],
    [text.createdBy, <MarkedText key="by" text={key.created_by} />],
    [common.createdAt, <Time key="created" at={key.created_at} />],
  ];
  if (key.deactivated_at) facts.push([text.revokedAt, <Time key="revoked" at={key.deactivated_at} />]);
  return facts;
}

function Revocation({ apiKey }: { apiKey: ApiKey }) {
  const queries = useQueryClient();
  const [takesAll, setTakesAll] = useState(false);
  const path = { nameOrID: apiKey.id };
  const refresh = () => void queries.invalidateQueries({ queryKey: [apiKeys.path] });
  if (apiKey.status === "revoked")
    return (
      <div className="row">
        <Confirm
          label={text.reactivate}
          title={text.reactivateTitle(apiKey.name)}
          action={() => unwrap(api.POST("/api/api-keys/{nameOrID}/reactivate", { params: { path } }))}
          onDone={refresh}
        >
          {text.reactivateText}
        </Confirm>
      </div>
    );
  const query = { revoke_credentials: takesAll };
  return (
    <div className="row">
      <Confirm
        label={text.revoke}
        title={text.revokeTitle(apiKey.name)}
        action={() => unwrap(api.DELETE("/api/api-keys/{nameOrID}", { params: { path, query } }))}
        onDone={refresh}
      >
        <p>{text.revokeText}</p>
        <Toggle label={text.revokeCredentials} isOn={takesAll} onChange={setTakesAll} />
      </Confirm>
    </div>
  );
}

function IssuedCredentials({ apiKey }: { apiKey: ApiKey }) {
  const pages = usePages<Issued>([apiKeys.path, "credentials", apiKey.id], (place) =>
    unwrap(
      api.GET("/api/api-keys/{nameOrID}/credentials", { params: { path: { nameOrID: apiKey.id }, query: place } }),
    ),
  );
  if (pages.rows.length === 0 && !pages.error) return null;
  return (
    <Section title={text.issued}>
      <p className="secondary">{text.issuedHint}</p>
      <List
        label={text.issued}
        pages={pages}
        keyOf={(row) => row.id}
        none={null}
        columns={[
          { title: text.machines, cell: ({ machine_identity }) => <MarkedText text={machine_identity} /> },
          { title: text.connection, cell: ({ connection_name }) => <MarkedText text={connection_name} /> },
          { title: text.username, cell: ({ username }) => <code>{username}</code> },
          { title: text.expires, cell: ({ expires_at }) => (expires_at ? <Time at={expires_at} /> : text.noExpiry) },
        ]}
      />
    </Section>
  );
}

function ApiKeyEditor({ name }: { name: string }) {
  const navigate = useNavigate();
  const groupNames = useNames("/api/users/groups");
  const [lifetime, setLifetime] = useState<Lifetime>("keep");
  const lifetimes = (["keep", "month", "quarter", "year"] as const).map(
    (name) => [name, text.lifetimes[name]] as const,
  );
  return (
    <Section title={text.settings}>
      <ResourceEditor
        resource={apiKeys}
        name={name}
        blank={{ name: "" }}
        draftOf={({ name, groups, service_account, allowed_networks }): ApiKeyDraft => ({
          name,
          allowed_networks,
          ...(service_account ? { service_account } : { groups }),
        })}
        nameOf={(key) => (key.id === name ? key.id : addressOf(key))}
        onSaved={() => setLifetime("keep")}
        onMoved={(moved) => moved && void navigate({ to: "/people/api-keys/$key", params: { key: moved } })}
      >
        {(draft, set) => (
          <>
            <Field label={common.name} value={draft.name} onChange={(name) => set({ name })} isRequired />
            {!draft.service_account && (
              <Names
                label={text.groupsOf}
                value={draft.groups ?? []}
                onChange={(groups) => set({ groups })}
                options={groupNames}
              />
            )}
            <Names
              label={text.networks}
              hint={text.networksHint}
              value={draft.allowed_networks ?? []}
              onChange={(allowed_networks) => set({ allowed_networks })}
            />
            <Choice
              label={text.lifetime}
              value={lifetime}
              options={lifetimes}
              onChange={(chosen) => {
                setLifetime(chosen);
                set({ expires_in_seconds: secondsOf(chosen) });
              }}
            />
          </>
        )}
      </ResourceEditor>
    </Section>
  );
}
