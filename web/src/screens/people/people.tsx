import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { useNames } from "../../api/names";
import { type Place, usePages } from "../../api/pages";
import { useUser } from "../../app/user";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Field } from "../../parts/field";
import { FormDialog } from "../../parts/form-dialog";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Names } from "../../parts/names";
import { Search } from "../../parts/search";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { Views } from "../../parts/views";
import { text } from "./messages";
import { AccountStatus, NameList, PeoplePage, Role } from "./people-page";
import { type Person, people } from "./resources";
import { type PeopleSearch, STATUSES } from "./searches";
import { type SetupLink, SetupLinkDialog } from "./setup-link";

const COLUMNS: Column<Person>[] = [
  {
    title: text.email,
    cell: ({ email, id }) => (
      <Link to="/people/$user" params={{ user: email || id }} className="mono">
        <MarkedText text={email || id} />
      </Link>
    ),
  },
  { title: common.name, cell: ({ name }) => <MarkedText text={name} /> },
  { title: text.role, cell: ({ role }) => <Role role={role} /> },
  { title: text.groupsOf, cell: ({ groups }) => <NameList names={groups} /> },
  { title: text.status, cell: ({ status }) => <AccountStatus status={status} /> },
  { title: text.lastLogin, cell: ({ last_login_at }) => (last_login_at ? <Time at={last_login_at} /> : text.never) },
];

/** All users of the organisation, by e-mail address. */
export function PeopleScreen() {
  const { search = "", status } = useSearch({ from: "/shell/people" });
  const navigate = useNavigate({ from: "/people" });
  const user = useUser();
  const filter = { ...(search && { search }), ...(status && { status }) };
  const read = (place: Place) => people.list(place, filter);
  const pages = usePages([people.path, "list", search, status], read);
  const find = (words: string) =>
    void navigate({ search: (before: PeopleSearch) => ({ ...before, search: words || undefined }), replace: true });
  return (
    <PeoplePage title={text.people} aside={user.is_admin && <NewPerson />}>
      <div className="row">
        <Search label={text.search} value={search} onSearch={find} />
        <Views label={text.status}>
          {([undefined, ...STATUSES] as const).map((name) => (
            <Link
              key={name ?? "all"}
              from="/people"
              to="/people"
              search={(before: PeopleSearch) => ({ ...before, status: name })}
              aria-current={status === name ? "page" : undefined}
            >
              {name ? text.statuses[name] : text.all}
            </Link>
          ))}
        </Views>
      </div>
      <List
        label={text.people}
        pages={pages}
        columns={COLUMNS}
        keyOf={(row) => row.id}
        count={(total) => counted(text.countPeople, total)}
        none={<p>{search ? common.noMatch(search) : text.nonePeople}</p>}
      />
    </PeoplePage>
  );
}

/** Create an account, and show the set-up link with which its owner sets a password. */
function NewPerson() {
  const queries = useQueryClient();
  const groupNames = useNames("/api/users/groups");
  const [email, setEmail] = useState("");
  const [name, setName] = useState("");
  const [groups, setGroups] = useState<string[]>([]);
  const [link, setLink] = useState<SetupLink | null>(null);
  const create = async () => {
    const person = await people.create({ email: email.trim(), name: name.trim() || null, groups });
    void queries.invalidateQueries({ queryKey: [people.path] });
    setLink(
      await unwrap(api.POST("/api/users/{nameOrID}/setup-link", { params: { path: { nameOrID: person.email } } })),
    );
  };
  const clear = () => {
    setEmail("");
    setName("");
    setGroups([]);
  };
  return (
    <>
      <FormDialog
        label={text.newPerson}
        title={text.newPerson}
        submit={text.newPersonSubmit}
        kind="primary"
        onOpen={clear}
        action={create}
      >
        <Field label={text.email} hint={text.emailHint} value={email} onChange={setEmail} type="email" isRequired />
        <Field label={common.name} hint={text.nameHint} value={name} onChange={setName} />
        <Names label={text.groupsOf} hint={text.groupsHint} value={groups} onChange={setGroups} options={groupNames} />
      </FormDialog>
      <SetupLinkDialog link={link} onClose={() => setLink(null)} />
    </>
  );
}
