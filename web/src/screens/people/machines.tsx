import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { useConnectionNames } from "../../api/lists";
import { usePages } from "../../api/pages";
import { useUser } from "../../app/user";
import { common } from "../../messages/common";
import { Field, NumberField } from "../../parts/field";
import { FormDialog } from "../../parts/form-dialog";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Names } from "../../parts/names";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { IssuedCredentialsDialog } from "./issued-credentials";
import { fromDays } from "./lifetimes";
import { text } from "./messages";
import { NameList, PeoplePage } from "./people-page";
import { addressOf, type IssuedCredential, type Machine, machines } from "./resources";

const COLUMNS: Column<Machine>[] = [
  {
    title: common.name,
    cell: (machine) => (
      <Link to="/people/machines/$machine" params={{ machine: addressOf(machine) }} className="mono">
        <MarkedText text={machine.name} />
      </Link>
    ),
  },
  { title: common.description, cell: ({ description }) => <MarkedText text={description} /> },
  { title: text.connections, cell: ({ connection_names }) => <NameList names={connection_names} /> },
  { title: common.createdAt, cell: ({ created_at }) => <Time at={created_at} /> },
];

/** Programs that use native clients, with passwords that are rotated. */
export function MachinesScreen() {
  const user = useUser();
  const pages = usePages([machines.path, "list"], (place) => machines.list(place));
  return (
    <PeoplePage title={text.machines} aside={user.is_admin && <NewMachine />}>
      <List
        label={text.machines}
        pages={pages}
        columns={COLUMNS}
        keyOf={(row) => row.id}
        none={<p>{text.noneMachines}</p>}
      />
    </PeoplePage>
  );
}

function NewMachine() {
  const queries = useQueryClient();
  const connectionNames = useConnectionNames();
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const [connections, setConnections] = useState<string[]>([]);
  const [days, setDays] = useState<number | null>(null);
  const [issued, setIssued] = useState<IssuedCredential[]>([]);
  const create = async () => {
    const body = {
      name: name.trim(),
      description,
      connection_names: connections,
      access_duration_seconds: fromDays(days),
    };
    setIssued((await unwrap(api.POST("/api/machineidentities", { body }))).credentials);
    void queries.invalidateQueries({ queryKey: [machines.path] });
  };
  const clear = () => {
    setName("");
    setDescription("");
    setConnections([]);
    setDays(null);
  };
  return (
    <>
      <FormDialog
        label={text.newMachine}
        title={text.newMachineTitle}
        submit={text.newMachine}
        kind="primary"
        onOpen={clear}
        action={create}
      >
        <Field label={common.name} hint={text.machineHint} value={name} onChange={setName} isRequired />
        <Field label={common.description} value={description} onChange={setDescription} />
        <Names
          label={text.connections}
          hint={text.connectionsHint}
          value={connections}
          onChange={setConnections}
          options={connectionNames}
        />
        <NumberField label={text.credentialLife} hint={text.credentialLifeHint} value={days} onChange={setDays} />
      </FormDialog>
      <IssuedCredentialsDialog credentials={issued} onClose={() => setIssued([])} />
    </>
  );
}
