import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { usePages } from "../../api/pages";
import { useUser } from "../../app/user";
import { common } from "../../messages/common";
import { Copy } from "../../parts/copy";
import { Field } from "../../parts/field";
import { FormDialog } from "../../parts/form-dialog";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { text } from "./messages";
import { PeoplePage } from "./people-page";
import { addressOf, type Group, groups } from "./resources";

const COLUMNS: Column<Group>[] = [
  {
    title: common.name,
    cell: (group) => (
      <Link to="/people/groups/$group" params={{ group: addressOf(group) }} className="mono">
        <MarkedText text={group.name} />
      </Link>
    ),
  },
  { title: text.members, cell: ({ members }) => members },
  { title: common.createdAt, cell: ({ created_at }) => <Time at={created_at} /> },
];

/** All groups, by name. */
export function GroupsScreen() {
  const user = useUser();
  const pages = usePages([groups.path, "list"], (place) => groups.list(place));
  return (
    <PeoplePage title={text.groups} aside={user.is_admin && <NewGroup />}>
      <List
        label={text.groups}
        pages={pages}
        columns={COLUMNS}
        keyOf={(row) => row.id}
        none={
          <div className="stack">
            <p>{text.noneGroups}</p>
            <Copy label={common.commandLine} text="postern admin groups create dba" />
          </div>
        }
      />
    </PeoplePage>
  );
}

function NewGroup() {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const create = async () => {
    const group = await groups.create({ name: name.trim() });
    void queries.invalidateQueries({ queryKey: [groups.path] });
    void navigate({ to: "/people/groups/$group", params: { group: addressOf(group) } });
  };
  return (
    <FormDialog
      label={text.newGroup}
      title={text.newGroupTitle}
      submit={text.newGroup}
      kind="primary"
      onOpen={() => setName("")}
      action={create}
    >
      <Field label={common.name} hint={text.groupHint} value={name} onChange={setName} isRequired />
    </FormDialog>
  );
}
