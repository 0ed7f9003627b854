import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { userQuery } from "../../api/account";
import { api, unwrap } from "../../api/client";
import { namedQuery, useNamed } from "../../api/names";
import { resource } from "../../api/resource";
import type { components } from "../../api/schema";
import { fieldsOf, type SecretField, secretOf } from "../../engines/target-secret";
import { Choice, Toggle } from "../../parts/choice";
import { Field, LongField, NumberField } from "../../parts/field";
import { Fields } from "../../parts/form";
import { Names, Pairs } from "../../parts/names";
import { Failure, Notice } from "../../parts/notice";
import { ResourceEditor } from "../../parts/resource-editor";
import { Skeleton } from "../../parts/table";
import { text } from "./messages";
import { SecretFields } from "./secret-fields";

export type Connection = components["schemas"]["ConnectionAnswer"];
export type ConnectionType = components["schemas"]["ConnectionTypeAnswer"];
type Request = components["schemas"]["ConnectionRequest"];

/** A connection as the form has it: the secret as fields, tags as rows, the command as text. */
interface Draft extends Omit<Request, "secret" | "connection_tags" | "command" | "tags" | "subtype"> {
  subtype: string;
  fields: SecretField[];
  rows: [string, string][];
  command: string;
}

const MODES = ["access_mode_connect", "access_mode_exec", "access_mode_runbooks", "access_schema"] as const;
const TERMINAL = ["access_mode_web_terminal", "access_fresh_factor"] as const;
const APPLICATION = ["access_fresh_factor"] as const;
const SSH_FEATURES = [
  "access_forward_local",
  "access_forward_remote",
  "access_forward_agent",
  "access_file_transfer",
] as const;

const connections = resource<Connection, Request>("/api/connections");

/** The draft is kept as the form needs it, and becomes a request only when it is sent. */
const drafts = {
  ...connections,
  create: (draft: Draft) => connections.create(requestOf(draft)),
  replace: (name: string, draft: Draft, version: string) => connections.replace(name, requestOf(draft), version),
  change: () => Promise.reject(new Error("connections are replaced as a whole")),
};

interface Props {
  name: string | undefined;
  onMoved: (name: string | null) => void;
}

export function ConnectionForm({ name, onMoved }: Props) {
  const { data: user } = useSuspenseQuery(userQuery);
  const types = useQuery({
    queryKey: ["connection types"],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: () => unwrap(api.GET("/api/connection-types")),
  });
  const agents = useQuery(namedQuery("/api/agents"));
  if (types.error) return <Failure error={types.error} onRetry={() => void types.refetch()} />;
  if (agents.error) return <Failure error={agents.error} onRetry={() => void agents.refetch()} />;
  if (!types.data || !agents.data) return <Skeleton />;
  const kinds = types.data;
  return (
    <ResourceEditor
      resource={drafts}
      name={name}
      blank={blankDraft(kinds, agents.data[0]?.id ?? "")}
      draftOf={(connection) => draftOf(connection, kinds)}
      nameOf={(connection) => connection.name}
      onMoved={onMoved}
      deletion={{ label: text.remove, title: text.removeTitle(name ?? ""), text: text.removeText }}
      isReadOnly={!user?.is_admin}
    >
      {(draft, set, item) => (
        <>
          {item?.warnings.map((warning) => (
            <Notice key={warning} kind="held">
              <p>{warning}</p>
            </Notice>
          ))}
          <Target draft={draft} set={set} kinds={kinds} isNew={item === null} />
          <Access draft={draft} set={set} kinds={kinds} />
          <Protection draft={draft} set={set} />
        </>
      )}
    </ResourceEditor>
  );
}

interface PartProps {
  draft: Draft;
  set: (part: Partial<Draft>) => void;
}

function Target({ draft, set, kinds, isNew }: PartProps & { kinds: ConnectionType[]; isNew: boolean }) {
  const agents = useNamed("/api/agents");
  const kind = kindOf(kinds, draft);
  const choose = (key: string) => {
    const chosen = kinds.find((other) => keyOf(other) === key);
    if (!chosen) return;
    const known = (name: string) =>
      chosen.keys.some((target) => target.name === name) ||
      chosen.key_prefixes.some((prefix) => name.startsWith(prefix));
    const typed = draft.fields.filter(({ name, value }) => value && (chosen.keys.length === 0 || known(name)));
    const missing = fieldsOf({}, {}, chosen.keys).filter(({ name }) => !typed.some((field) => field.name === name));
    set({ type: chosen.type, subtype: chosen.subtype, fields: [...typed, ...missing] });
  };
  return (
    <Fields title={text.target}>
      {isNew && (
        <Field
          label={text.name}
          hint={text.nameHint}
          value={draft.name}
          onChange={(name) => set({ name })}
          isRequired
          autoFocus
        />
      )}
      <LongField
        label={text.description}
        hint={text.descriptionHint}
        value={draft.description ?? ""}
        onChange={(description) => set({ description })}
        maxLength={10_000}
        rows={2}
      />
      <Choice
        label={text.kind}
        value={kind ? keyOf(kind) : ""}
        options={kinds.map((other) => [keyOf(other), titleOf(other)] as const)}
        onChange={choose}
      />
      <Choice
        label={text.agent}
        hint={text.agentHint}
        value={draft.agent_id}
        options={agents.map(({ id, name }) => [id, name] as const)}
        onChange={(agent_id) => set({ agent_id })}
      />
      {kind && !kind.has_protocol && (
        <LongField
          label={text.command}
          hint={text.commandHint}
          value={draft.command}
          onChange={(command) => set({ command })}
          rows={3}
          isCode
        />
      )}
      <SecretFields
        keys={kind?.keys ?? []}
        prefixes={kind?.key_prefixes ?? []}
        port={kind?.port ?? null}
        subtype={draft.subtype}
        fields={draft.fields}
        onChange={(fields) => set({ fields })}
      />
      <Field
        label={text.resource}
        hint={text.resourceHint}
        value={draft.resource_name ?? ""}
        onChange={(resource_name) => set({ resource_name })}
      />
      <Pairs
        label={text.tags}
        nameLabel={text.tagName}
        valueLabel={text.tagValue}
        value={draft.rows}
        onChange={(rows) => set({ rows })}
      />
    </Fields>
  );
}

function Access({ draft, set, kinds }: PartProps & { kinds: ConnectionType[] }) {
  const groups = useNamed("/api/users/groups").map(({ name }) => name);
  const kind = kindOf(kinds, draft);
  const hasTerminal = kind !== undefined && (!kind.has_protocol || kind.has_ssh_features);
  const toggles = [
    ...MODES,
    ...(hasTerminal ? TERMINAL : []),
    ...(kind?.is_web ? APPLICATION : []),
    ...(kind?.has_ssh_features ? SSH_FEATURES : []),
  ];
  return (
    <Fields title={text.access}>
      {toggles.map((mode) => (
        <Toggle
          key={mode}
          label={text.modes[mode]}
          isOn={draft[mode] === "enabled"}
          onChange={(isOn) => set({ [mode]: isOn ? "enabled" : "disabled" })}
        />
      ))}
      <Names
        label={text.reviewers}
        hint={text.reviewersHint}
        value={draft.reviewers ?? []}
        options={groups}
        allowsOthers
        onChange={(reviewers) => set({ reviewers })}
      />
      <Names
        label={text.forceGroups}
        hint={text.forceGroupsHint}
        value={draft.force_approve_groups ?? []}
        options={groups}
        allowsOthers
        onChange={(force_approve_groups) => set({ force_approve_groups })}
      />
      <NumberField
        label={text.longest}
        hint={text.longestHint}
        value={draft.access_max_duration ?? null}
        onChange={(access_max_duration) => set({ access_max_duration })}
      />
    </Fields>
  );
}

function Protection({ draft, set }: PartProps) {
  const guardrails = useNamed("/api/guardrails");
  const ids = draft.guardrail_rules ?? [];
  const nameOf = (id: string) => guardrails.find((rule) => rule.id === id)?.name ?? id;
  const idOf = (name: string) => guardrails.find((rule) => rule.name === name)?.id ?? name;
  return (
    <Fields title={text.protection}>
      <Names
        label={text.guardrails}
        hint={text.guardrailsHint}
        value={ids.map(nameOf)}
        options={guardrails.map(({ name }) => name)}
        onChange={(names) => set({ guardrail_rules: names.map(idOf) })}
      />
      <Toggle
        label={text.redact}
        hint={text.redactHint}
        isOn={draft.redact_enabled ?? false}
        onChange={(redact_enabled) => set({ redact_enabled })}
      />
      {draft.redact_enabled && (
        <Names
          label={text.redactTypes}
          hint={text.redactTypesHint}
          value={draft.redact_types ?? []}
          onChange={(redact_types) => set({ redact_types })}
        />
      )}
    </Fields>
  );
}

function blankDraft(kinds: ConnectionType[], agent: string): Draft {
  const [first] = kinds;
  return {
    name: "",
    type: first?.type ?? "database",
    subtype: first?.subtype ?? "",
    agent_id: agent,
    access_mode_connect: "enabled",
    access_mode_exec: "enabled",
    access_mode_runbooks: "enabled",
    access_schema: "enabled",
    access_file_transfer: "enabled",
    redact_enabled: true,
    redact_types: [],
    fields: fieldsOf({}, {}, first?.keys ?? []),
    rows: [],
    command: "",
  };
}

function draftOf(connection: Connection, kinds: ConnectionType[]): Draft {
  const { secret, target, connection_tags, command, tags: _, ...same } = connection;
  return {
    ...same,
    fields: fieldsOf(secret, target, kindOf(kinds, connection)?.keys ?? []),
    rows: Object.entries(connection_tags),
    command: command.join("\n"),
  };
}

function requestOf({ fields, rows, command, ...draft }: Draft): Request {
  return {
    ...draft,
    subtype: draft.subtype as NonNullable<Request["subtype"]>,
    secret: secretOf(fields),
    connection_tags: Object.fromEntries(rows.filter(([name]) => name)),
    command: command.split("\n").filter(Boolean),
  };
}

function kindOf(kinds: ConnectionType[], { type, subtype }: { type: string; subtype?: string | null }) {
  return kinds.find((kind) => kind.type === type && kind.subtype === subtype);
}

const keyOf = ({ type, subtype }: ConnectionType) => `${type}/${subtype}`;

function titleOf({ title, has_protocol, subtype }: ConnectionType): string {
  if (has_protocol) return title;
  return subtype ? text.byCommand(title) : text.anyCommand;
}
