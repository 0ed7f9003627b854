import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { useNames } from "../../api/names";
import { usePages } from "../../api/pages";
import { useUser } from "../../app/user";
import { common } from "../../messages/common";
import { Confirm } from "../../parts/confirm";
import { Copy } from "../../parts/copy";
import { Facts } from "../../parts/facts";
import { Field } from "../../parts/field";
import { FormDialog } from "../../parts/form-dialog";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Names } from "../../parts/names";
import { Failure } from "../../parts/notice";
import { Page } from "../../parts/page";
import { ResourceEditor, useResource } from "../../parts/resource-editor";
import { Section } from "../../parts/section";
import { type Column, Skeleton } from "../../parts/table";
import { text } from "./messages";
import { AccountStatus, NameList, PeoplePage, Role } from "./people-page";
import { addressOf, type ServiceAccount, type ServiceAccountDraft, serviceAccounts } from "./resources";

const placeOf = ({ id, subject }: ServiceAccount) => addressOf({ id, name: subject });

const COLUMNS: Column<ServiceAccount>[] = [
  {
    title: text.subject,
    cell: (account) => (
      <Link to="/people/service-accounts/$account" params={{ account: placeOf(account) }} className="mono">
        <MarkedText text={account.subject} />
      </Link>
    ),
  },
  { title: common.name, cell: ({ name }) => <MarkedText text={name} /> },
  { title: text.role, cell: ({ role }) => <Role role={role} /> },
  { title: text.groupsOf, cell: ({ groups }) => <NameList names={groups} /> },
  { title: text.status, cell: ({ status }) => <AccountStatus status={status} /> },
];

/** All service accounts: identities of programs. */
export function ServiceAccountsScreen() {
  const user = useUser();
  const pages = usePages([serviceAccounts.path, "list"], (place) => serviceAccounts.list(place));
  return (
    <PeoplePage title={text.serviceAccounts} aside={user.is_admin && <NewServiceAccount />}>
      <List
        label={text.serviceAccounts}
        pages={pages}
        columns={COLUMNS}
        keyOf={(row) => row.id}
        none={
          <div className="stack">
            <p>{text.noneServiceAccounts}</p>
            <Copy label={common.commandLine} text="postern admin service-accounts create deploy" />
          </div>
        }
      />
    </PeoplePage>
  );
}

function NewServiceAccount() {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const groupNames = useNames("/api/users/groups");
  const [subject, setSubject] = useState("");
  const [name, setName] = useState("");
  const [groups, setGroups] = useState<string[]>([]);
  const create = async () => {
    const account = await serviceAccounts.create({ subject: subject.trim(), name: name.trim() || null, groups });
    void queries.invalidateQueries({ queryKey: [serviceAccounts.path] });
    void navigate({ to: "/people/service-accounts/$account", params: { account: placeOf(account) } });
  };
  const clear = () => {
    setSubject("");
    setName("");
    setGroups([]);
  };
  return (
    <FormDialog
      label={text.newServiceAccount}
      title={text.newServiceAccountTitle}
      submit={text.newServiceAccount}
      kind="primary"
      onOpen={clear}
      action={create}
    >
      <Field label={text.subject} hint={text.subjectHint} value={subject} onChange={setSubject} isRequired />
      <Field label={common.name} value={name} onChange={setName} />
      <Names label={text.groupsOf} hint={text.groupsHint} value={groups} onChange={setGroups} options={groupNames} />
    </FormDialog>
  );
}

/** One service account. */
export function ServiceAccountScreen() {
  const { account: key } = useParams({ from: "/shell/people/service-accounts/$account" });
  const { is_admin } = useUser();
  const query = useResource(serviceAccounts, key);
  const account = query.data?.item;
  return (
    <Page title={account?.subject ?? key} aside={<Link to="/people/service-accounts">{text.allServiceAccounts}</Link>}>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton />}
      {account && (
        <>
          <Facts
            facts={[
              [text.status, <AccountStatus key="status" status={account.status} />],
              [common.name, <MarkedText key="name" text={account.name} />],
              [text.role, <Role key="role" role={account.role} />],
              [text.groupsOf, <NameList key="groups" names={account.groups} none={common.none} />],
              [
                text.apiKeys,
                <Link key="keys" to="/people/api-keys">
                  {text.apiKeys}
                </Link>,
              ],
            ]}
          />
          {is_admin && <StatusSwitch account={account} />}
          {is_admin && <ServiceAccountEditor name={key} />}
        </>
      )}
    </Page>
  );
}

function StatusSwitch({ account }: { account: ServiceAccount }) {
  const queries = useQueryClient();
  const isActive = account.status !== "inactive";
  return (
    <div className="row">
      <Confirm
        label={isActive ? text.deactivate : text.activate}
        title={isActive ? text.deactivateTitle(account.subject) : text.activateTitle(account.subject)}
        action={() => serviceAccounts.change(account.id, { status: isActive ? "inactive" : "active" })}
        onDone={() => void queries.invalidateQueries({ queryKey: [serviceAccounts.path] })}
      >
        {isActive ? text.deactivateText : text.activateText}
      </Confirm>
    </div>
  );
}

function ServiceAccountEditor({ name }: { name: string }) {
  const navigate = useNavigate();
  const groupNames = useNames("/api/users/groups");
  return (
    <Section title={text.settings}>
      <ResourceEditor
        resource={serviceAccounts}
        name={name}
        blank={{ subject: "" }}
        draftOf={({ subject, name, groups }): ServiceAccountDraft => ({ subject, name, groups })}
        nameOf={() => name}
        deletion={{
          label: text.deleteServiceAccount,
          title: text.deleteServiceAccountTitle(name),
          text: text.deleteServiceAccountText,
        }}
        onMoved={() => void navigate({ to: "/people/service-accounts" })}
      >
        {(draft, set) => (
          <>
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
