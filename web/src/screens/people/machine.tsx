import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { useConnectionNames } from "../../api/lists";
import type { components } from "../../api/schema";
import { useUser } from "../../app/user";
import { common } from "../../messages/common";
import { Chip } from "../../parts/chip";
import { Choice } from "../../parts/choice";
import { Facts } from "../../parts/facts";
import { LongField, NumberField } from "../../parts/field";
import { FormDialog } from "../../parts/form-dialog";
import { MarkedText } from "../../parts/marked-text";
import { Names, Pairs } from "../../parts/names";
import { Failure } from "../../parts/notice";
import { Page } from "../../parts/page";
import { ResourceEditor, useResource } from "../../parts/resource-editor";
import { Section } from "../../parts/section";
import { Skeleton, Table } from "../../parts/table";
import { Time } from "../../parts/time";
import { IssuedCredentialsDialog } from "./issued-credentials";
import { fromDays, toDays } from "./lifetimes";
import { text } from "./messages";
import { NameList } from "./people-page";
import { type IssuedCredential, type Machine, type MachineDraft, machines } from "./resources";

type Credential = components["schemas"]["CredentialAnswer"];
type Overlap = keyof typeof text.overlaps;
const OVERLAPS: Record<Overlap, number> = { now: 0, hour: 3_600, day: 86_400, week: 604_800 };
const KINDS: Record<string, "ok" | "off" | "refused"> = { active: "ok", expired: "off", revoked: "refused" };

/** One machine identity with its credentials. */
export function MachineScreen() {
  const { machine: name } = useParams({ from: "/shell/people/machines/$machine" });
  const { is_admin } = useUser();
  const [issued, setIssued] = useState<IssuedCredential[]>([]);
  const query = useResource(machines, name);
  const machine = query.data?.item;
  return (
    <Page title={machine?.name ?? name} aside={<Link to="/people/machines">{text.allMachines}</Link>}>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton />}
      {machine && (
        <>
          {!is_admin && <MachineFacts machine={machine} />}
          <Credentials machine={machine} canRotate={is_admin} onIssued={setIssued} />
          {is_admin && <MachineEditor name={name} onIssued={setIssued} />}
        </>
      )}
      <IssuedCredentialsDialog credentials={issued} onClose={() => setIssued([])} />
    </Page>
  );
}

/** What administrators see in the form. */
function MachineFacts({ machine }: { machine: Machine }) {
  return (
    <Facts
      facts={[
        [common.description, <MarkedText key="description" text={machine.description} />],
        [text.connections, <NameList key="connections" names={machine.connection_names} none={common.none} />],
        [text.attributes, <NameList key="attributes" names={attributesOf(machine)} none={common.none} />],
        [common.createdAt, <Time key="created" at={machine.created_at} />],
      ]}
    />
  );
}

const attributesOf = ({ attributes }: Machine) =>
  Object.entries(attributes).map(([name, value]) => `${name}: ${value}`);

interface CredentialsProps {
  machine: Machine;
  canRotate: boolean;
  onIssued: (issued: IssuedCredential[]) => void;
}

function Credentials({ machine, canRotate, onIssued }: CredentialsProps) {
  const path = { nameOrID: machine.id };
  const credentials = useQuery({
    queryKey: [machines.path, "credentials", machine.id],
    queryFn: () => unwrap(api.GET("/api/machineidentities/{nameOrID}/credentials", { params: { path } })),
  });
  const rows = credentials.data?.data ?? [];
  const isCurrent = (row: Credential) =>
    row.status === "active" && rows.find((other) => other.connection_name === row.connection_name)?.id === row.id;
  return (
    <Section title={text.credentials}>
      {credentials.error && <Failure error={credentials.error} onRetry={() => void credentials.refetch()} />}
      {credentials.isPending && <Skeleton rows={2} />}
      {credentials.data && rows.length === 0 && <p>{text.noCredentials}</p>}
      {rows.length > 0 && (
        <Table
          label={text.credentials}
          rows={rows}
          keyOf={(row) => row.id}
          columns={[
            { title: text.connection, cell: ({ connection_name }) => <MarkedText text={connection_name} /> },
            { title: text.username, cell: ({ username }) => <code>{username}</code> },
            {
              title: text.status,
              cell: ({ status }) => (
                <Chip kind={KINDS[status] ?? "off"}>{text.credentialStatuses[status] ?? status}</Chip>
              ),
            },
            { title: text.expires, cell: ({ expires_at }) => (expires_at ? <Time at={expires_at} /> : text.noExpiry) },
            ...(canRotate
              ? [
                  {
                    title: text.rotate,
                    cell: (row: Credential) =>
                      isCurrent(row) && (
                        <Rotate machine={machine} connection={row.connection_name} onIssued={onIssued} />
                      ),
                  },
                ]
              : []),
          ]}
        />
      )}
    </Section>
  );
}

function Rotate({
  machine,
  connection,
  onIssued,
}: {
  machine: Machine;
  connection: string;
  onIssued: (issued: IssuedCredential[]) => void;
}) {
  const queries = useQueryClient();
  const [overlap, setOverlap] = useState<Overlap>("hour");
  const [days, setDays] = useState<number | null>(null);
  const rotate = async () => {
    const params = { path: { nameOrID: machine.id, connection } };
    const body = { overlap_seconds: OVERLAPS[overlap], access_duration_seconds: fromDays(days) };
    onIssued([
      await unwrap(api.POST("/api/machineidentities/{nameOrID}/credentials/{connection}/rotate", { params, body })),
    ]);
    void queries.invalidateQueries({ queryKey: [machines.path, "credentials", machine.id] });
  };
  return (
    <FormDialog
      label={text.rotate}
      title={text.rotateTitle(connection)}
      submit={text.rotateSubmit}
      onOpen={() => setOverlap("hour")}
      action={rotate}
    >
      <Choice
        label={text.overlap}
        hint={text.overlapHint}
        value={overlap}
        options={(Object.keys(OVERLAPS) as Overlap[]).map((name) => [name, text.overlaps[name]] as const)}
        onChange={setOverlap}
      />
      <NumberField label={text.credentialLife} hint={text.credentialLifeHint} value={days} onChange={setDays} />
    </FormDialog>
  );
}

function MachineEditor({ name, onIssued }: { name: string; onIssued: (issued: IssuedCredential[]) => void }) {
  const navigate = useNavigate();
  const connectionNames = useConnectionNames();
  return (
    <Section title={text.settings}>
      <ResourceEditor
        resource={machines}
        name={name}
        blank={{}}
        draftOf={({ description, connection_names, attributes }): MachineDraft => ({
          description,
          connection_names,
          attributes,
        })}
        nameOf={() => name}
        onSaved={({ new_credentials }) => onIssued(new_credentials ?? [])}
        deletion={{
          label: text.deleteMachine,
          title: text.deleteMachineTitle(name),
          text: text.deleteMachineText,
        }}
        onMoved={() => void navigate({ to: "/people/machines" })}
      >
        {(draft, set) => (
          <>
            <LongField
              label={common.description}
              value={draft.description ?? ""}
              onChange={(description) => set({ description })}
              rows={2}
            />
            <Names
              label={text.connections}
              hint={text.connectionsHint}
              value={draft.connection_names ?? []}
              onChange={(connection_names) => set({ connection_names })}
              options={connectionNames}
            />
            <Attributes value={draft.attributes ?? {}} onChange={(attributes) => set({ attributes })} />
            <NumberField
              label={text.credentialLife}
              hint={text.credentialLifeHint}
              value={toDays(draft.access_duration_seconds)}
              onChange={(days) => set({ access_duration_seconds: fromDays(days) })}
            />
          </>
        )}
      </ResourceEditor>
    </Section>
  );
}

/** Names with values. Rows that have no name yet are kept here, while they are typed. */
function Attributes({
  value,
  onChange,
}: {
  value: Record<string, string>;
  onChange: (value: Record<string, string>) => void;
}) {
  const [pairs, setPairs] = useState(() => Object.entries(value));
  const change = (next: [string, string][]) => {
    setPairs(next);
    onChange(Object.fromEntries(next.filter(([name]) => name.trim())));
  };
  return (
    <Pairs label={text.attributes} nameLabel={text.attribute} valueLabel={text.value} value={pairs} onChange={change} />
  );
}
