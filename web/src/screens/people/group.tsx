import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { useNames } from "../../api/names";
import { usePages } from "../../api/pages";
import { useUser } from "../../app/user";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Confirm } from "../../parts/confirm";
import { Field } from "../../parts/field";
import { FormDialog } from "../../parts/form-dialog";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Names } from "../../parts/names";
import { Failure } from "../../parts/notice";
import { Page } from "../../parts/page";
import { ResourceEditor, useResource } from "../../parts/resource-editor";
import { Section } from "../../parts/section";
import { Skeleton } from "../../parts/table";
import { text } from "./messages";
import { AccountStatus } from "./people-page";
import { addressOf, changeGroups, groups, type Person, people } from "./resources";

/** One group with its members. */
export function GroupScreen() {
  const { group: key } = useParams({ from: "/shell/people/groups/$group" });
  const { is_admin } = useUser();
  const query = useResource(groups, key);
  const group = query.data?.item;
  return (
    <Page title={group?.name ?? key} aside={<Link to="/people/groups">{text.allGroups}</Link>}>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton />}
      {group && <Members group={group.name} canChange={is_admin} />}
      {group && is_admin && <GroupEditor name={key} />}
    </Page>
  );
}

function Members({ group, canChange }: { group: string; canChange: boolean }) {
  const queries = useQueryClient();
  const pages = usePages([people.path, "list", "group", group], (place) => people.list(place, { group }));
  const refresh = () => {
    void queries.invalidateQueries({ queryKey: [people.path] });
    void queries.invalidateQueries({ queryKey: [groups.path, "list"] });
  };
  const remove = (email: string) => changeGroups(email, (names) => names.filter((name) => name !== group));
  return (
    <Section title={text.members} actions={canChange && <AddMembers group={group} onDone={refresh} />}>
      <List
        label={text.members}
        pages={pages}
        keyOf={(row) => row.id}
        count={(total) => counted(text.countPeople, total)}
        none={<p>{text.noMembers}</p>}
        columns={[
          {
            title: text.email,
            cell: ({ email, id }) => (
              <Link to="/people/$user" params={{ user: email || id }} className="mono">
                <MarkedText text={email || id} />
              </Link>
            ),
          },
          { title: common.name, cell: ({ name }) => <MarkedText text={name} /> },
          { title: text.status, cell: ({ status }) => <AccountStatus status={status} /> },
          ...(canChange
            ? [
                {
                  title: text.removeMember,
                  cell: ({ email, id }: Person) => (
                    <Confirm
                      label={text.removeMember}
                      title={text.removeMemberTitle(email || id, group)}
                      action={() => remove(email || id)}
                      onDone={refresh}
                    >
                      {text.removeMemberText}
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

function AddMembers({ group, onDone }: { group: string; onDone: () => void }) {
  const emails = useNames("/api/users");
  const [chosen, setChosen] = useState<string[]>([]);
  const add = async () => {
    for (const email of chosen) await changeGroups(email, (names) => [...new Set([...names, group])]);
    onDone();
  };
  return (
    <FormDialog
      label={text.addMember}
      title={text.addMemberTitle(group)}
      submit={text.addMember}
      onOpen={() => setChosen([])}
      action={add}
    >
      <Names label={text.person} value={chosen} onChange={setChosen} options={emails} allowsOthers />
    </FormDialog>
  );
}

function GroupEditor({ name }: { name: string }) {
  const navigate = useNavigate();
  return (
    <Section title={text.settings}>
      <ResourceEditor
        resource={groups}
        name={name}
        blank={{ name: "" }}
        draftOf={({ name }) => ({ name })}
        nameOf={(group) => (group.id === name ? group.id : addressOf(group))}
        deletion={{ label: text.deleteGroup, title: text.deleteGroupTitle(name), text: text.deleteGroupText }}
        onMoved={(moved) =>
          void navigate(
            moved === null ? { to: "/people/groups" } : { to: "/people/groups/$group", params: { group: moved } },
          )
        }
      >
        {(draft, set) => (
          <Field
            label={text.rename}
            hint={text.renameHint}
            value={draft.name}
            onChange={(name) => set({ name })}
            isRequired
          />
        )}
      </ResourceEditor>
    </Section>
  );
}
