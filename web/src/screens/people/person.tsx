import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { useNames } from "../../api/names";
import { usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { useUser } from "../../app/user";
import { common } from "../../messages/common";
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
import { text } from "./messages";
import { AccountStatus, NameList, Role } from "./people-page";
import { type Person, type PersonDraft, people } from "./resources";
import { type SetupLink, SetupLinkDialog } from "./setup-link";

type SshKey = components["schemas"]["SshKeyAnswer"];
type Login = components["schemas"]["LoginShown"];

/** One user: what they are, and what an administrator can do about them. */
export function PersonScreen() {
  const { user: name } = useParams({ from: "/shell/people/$user" });
  const caller = useUser();
  const query = useResource(people, name);
  const person = query.data?.item;
  return (
    <Page title={person?.email || name} aside={<Link to="/people">{text.allPeople}</Link>}>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton />}
      {person && (
        <>
          <PersonFacts person={person} />
          {caller.is_admin && <Actions person={person} isSelf={person.id === caller.id} />}
          {caller.is_admin && <PersonEditor name={name} />}
          <Logins person={person} canEnd={caller.is_admin} />
          <SshKeys person={person} canDelete={caller.is_admin} />
        </>
      )}
    </Page>
  );
}

function PersonFacts({ person }: { person: Person }) {
  return (
    <Facts
      facts={[
        [text.status, <AccountStatus key="status" status={person.status} />],
        [common.name, <MarkedText key="name" text={person.name} />],
        [text.role, <Role key="role" role={person.role} />],
        [text.groupsOf, <NameList key="groups" names={person.groups} none={common.none} />],
        [text.verified, person.verified ? common.yes : common.no],
        [text.lastLogin, person.last_login_at ? <Time key="login" at={person.last_login_at} /> : text.never],
        [common.createdAt, person.created_at ? <Time key="created" at={person.created_at} /> : ""],
        [
          text.sessions,
          <Link key="sessions" to="/sessions" search={{ user: person.email }}>
            {text.showSessions}
          </Link>,
        ],
      ]}
    />
  );
}

function Actions({ person, isSelf }: { person: Person; isSelf: boolean }) {
  const queries = useQueryClient();
  const [link, setLink] = useState<SetupLink | null>(null);
  const path = { nameOrID: person.email || person.id };
  const refresh = () => void queries.invalidateQueries({ queryKey: [people.path] });
  const isActive = person.status !== "inactive";
  const createLink = async () =>
    setLink(await unwrap(api.POST("/api/users/{nameOrID}/setup-link", { params: { path } })));
  const setStatus = (status: "active" | "inactive") =>
    unwrap(api.PATCH("/api/users/{nameOrID}", { params: { path }, body: { status } }));
  return (
    <div className="row">
      <Confirm label={text.setupLink} title={text.setupLink} action={createLink}>
        {text.setupLinkText}
      </Confirm>
      {!isSelf && (
        <>
          <Confirm
            label={text.resetFactors}
            title={text.resetFactorsTitle}
            action={() => unwrap(api.DELETE("/api/users/{nameOrID}/second-factors", { params: { path } }))}
            onDone={refresh}
          >
            {text.resetFactorsText}
          </Confirm>
          <Confirm
            label={isActive ? text.deactivate : text.activate}
            title={isActive ? text.deactivateTitle(person.email) : text.activateTitle(person.email)}
            action={() => setStatus(isActive ? "inactive" : "active")}
            onDone={refresh}
          >
            {isActive ? text.deactivateText : text.activateText}
          </Confirm>
        </>
      )}
      <SetupLinkDialog link={link} onClose={() => setLink(null)} />
    </div>
  );
}

function PersonEditor({ name }: { name: string }) {
  const navigate = useNavigate();
  const groupNames = useNames("/api/users/groups");
  return (
    <Section title={text.account}>
      <ResourceEditor
        resource={people}
        name={name}
        blank={{}}
        draftOf={({ name, groups, email }): PersonDraft => ({ name, groups, email })}
        nameOf={(person) => (person.id === name ? person.id : person.email)}
        deletion={{
          label: text.deletePerson,
          title: text.deletePersonTitle(name),
          text: text.deletePersonText,
        }}
        onMoved={(email) =>
          void navigate(email === null ? { to: "/people" } : { to: "/people/$user", params: { user: email } })
        }
      >
        {(draft, set) => (
          <>
            <Field label={text.email} value={draft.email ?? ""} onChange={(email) => set({ email })} type="email" />
            <Field label={common.name} value={draft.name ?? ""} onChange={(name) => set({ name })} />
            <Names
              label={text.groupsOf}
              hint={text.groupsHint}
              value={draft.groups ?? []}
              onChange={(groups) => set({ groups })}
              options={groupNames}
            />
          </>
        )}
      </ResourceEditor>
    </Section>
  );
}

function Logins({ person, canEnd }: { person: Person; canEnd: boolean }) {
  const queries = useQueryClient();
  const path = { nameOrID: person.email || person.id };
  const key = [people.path, "logins", person.id];
  const pages = usePages<Login>(key, (place) =>
    unwrap(api.GET("/api/users/{nameOrID}/logins", { params: { path, query: place } })),
  );
  const refresh = () => void queries.invalidateQueries({ queryKey: key });
  const endAll = () => unwrap(api.DELETE("/api/users/{nameOrID}/logins", { params: { path } }));
  const end = (login_id: string) => unwrap(api.DELETE("/api/logins/{login_id}", { params: { path: { login_id } } }));
  return (
    <Section
      title={text.logins}
      actions={
        canEnd &&
        pages.rows.length > 0 && (
          <Confirm label={text.endAll} title={text.endAllTitle} action={endAll} onDone={refresh}>
            {text.endAllText}
          </Confirm>
        )
      }
    >
      <List
        label={text.logins}
        pages={pages}
        keyOf={(login) => login.id}
        none={<p>{text.noLogins}</p>}
        columns={[
          {
            title: text.client,
            cell: ({ client }) => <span className="nowrap">{text.clients[client] ?? client}</span>,
          },
          { title: text.program, cell: ({ user_agent }) => <MarkedText text={user_agent} /> },
          { title: text.address, cell: ({ source }) => <span className="mono nowrap">{source}</span> },
          { title: common.createdAt, cell: ({ created_at }) => <Time at={created_at} /> },
          { title: text.expires, cell: ({ ends_at }) => <Time at={ends_at} /> },
          ...(canEnd
            ? [
                {
                  title: text.endLogin,
                  cell: ({ id }: Login) => (
                    <Confirm label={text.endLogin} title={text.endLoginTitle} action={() => end(id)} onDone={refresh}>
                      {text.endLoginText}
                    </Confirm>
                  ),
                },
              ]
            : []),
        ]}
      />
    </Section>
  );
}

function SshKeys({ person, canDelete }: { person: Person; canDelete: boolean }) {
  const queries = useQueryClient();
  const user = person.email || person.id;
  const key = [people.path, "ssh keys", person.id];
  const pages = usePages<SshKey>(key, (place) =>
    unwrap(api.GET("/api/users/{nameOrID}/sshkeys", { params: { path: { nameOrID: user }, query: place } })),
  );
  const remove = (id: string) =>
    unwrap(api.DELETE("/api/sshkeys/{nameOrID}", { params: { path: { nameOrID: id }, query: { user } } }));
  return (
    <Section title={text.sshKeys}>
      <List
        label={text.sshKeys}
        pages={pages}
        keyOf={(row) => row.id}
        none={<p>{text.noSshKeys}</p>}
        columns={[
          { title: common.name, cell: ({ name }) => <MarkedText text={name} /> },
          { title: text.algorithm, cell: ({ algorithm }) => algorithm },
          { title: text.fingerprint, cell: ({ fingerprint }) => <code>{fingerprint}</code> },
          {
            title: text.lastUsed,
            cell: ({ last_used_at }) => (last_used_at ? <Time at={last_used_at} /> : text.never),
          },
          ...(canDelete
            ? [
                {
                  title: text.deleteKey,
                  cell: ({ id, name }: SshKey) => (
                    <Confirm
                      label={text.deleteKey}
                      title={text.deleteKeyTitle(name)}
                      action={() => remove(id)}
                      onDone={() => void queries.invalidateQueries({ queryKey: key })}
                    >
                      {text.deleteKeyText}
                    </Confirm>
                  ),
                },
              ]
            : []),
        ]}
      />
    </Section>
  );
}
