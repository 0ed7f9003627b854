import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { usePages } from "../../api/pages";
import { useUser } from "../../app/user";
import { common } from "../../messages/common";
import { Copy } from "../../parts/copy";
import { Facts } from "../../parts/facts";
import { Field, LongField } from "../../parts/field";
import { FormDialog } from "../../parts/form-dialog";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import { Page } from "../../parts/page";
import { ResourceEditor, useResource } from "../../parts/resource-editor";
import { Section } from "../../parts/section";
import { type Column, Skeleton } from "../../parts/table";
import { Time } from "../../parts/time";
import { text } from "./messages";
import { PeoplePage } from "./people-page";
import { type Authority, addressOf, authorities } from "./resources";

const COLUMNS: Column<Authority>[] = [
  {
    title: common.name,
    cell: (authority) => (
      <Link to="/people/ssh-authorities/$authority" params={{ authority: addressOf(authority) }} className="mono">
        <MarkedText text={authority.name} />
      </Link>
    ),
  },
  { title: text.algorithm, cell: ({ algorithm }) => algorithm },
  { title: text.fingerprint, cell: ({ fingerprint }) => <code>{fingerprint}</code> },
  { title: common.createdAt, cell: ({ created_at }) => <Time at={created_at} /> },
];

/** The certificate authorities whose SSH certificates log users in. */
export function AuthoritiesScreen() {
  const user = useUser();
  const pages = usePages([authorities.path, "list"], (place) => authorities.list(place));
  return (
    <PeoplePage title={text.authorities} aside={user.is_admin && <NewAuthority />}>
      <List
        label={text.authorities}
        pages={pages}
        columns={COLUMNS}
        keyOf={(row) => row.id}
        none={
          <div className="stack">
            <p>{text.noneAuthorities}</p>
            <Copy label={common.commandLine} text="postern admin ssh-authorities create people users_ca.pub" />
          </div>
        }
      />
    </PeoplePage>
  );
}

function NewAuthority() {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [key, setKey] = useState("");
  const create = async () => {
    await authorities.create({ name: name.trim(), public_key: key.trim() });
    await queries.invalidateQueries({ queryKey: [authorities.path] });
  };
  const clear = () => {
    setName("");
    setKey("");
  };
  return (
    <FormDialog
      label={text.newAuthority}
      title={text.newAuthorityTitle}
      submit={text.newAuthority}
      kind="primary"
      onOpen={clear}
      action={create}
    >
      <p>{text.authorityHint}</p>
      <Field label={common.name} value={name} onChange={setName} isRequired />
      <LongField label={text.publicKey} hint={text.publicKeyHint} value={key} onChange={setKey} isCode isRequired />
    </FormDialog>
  );
}

/** One authority. Its key cannot change. */
export function AuthorityScreen() {
  const { authority: name } = useParams({ from: "/shell/people/ssh-authorities/$authority" });
  const { is_admin } = useUser();
  const navigate = useNavigate();
  const query = useResource(authorities, name);
  const authority = query.data?.item;
  return (
    <Page title={authority?.name ?? name} aside={<Link to="/people/ssh-authorities">{text.allAuthorities}</Link>}>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton />}
      {authority && (
        <Facts
          facts={[
            [text.algorithm, authority.algorithm],
            [text.fingerprint, <code key="fingerprint">{authority.fingerprint}</code>],
            [text.publicKey, <code key="key">{authority.public_key}</code>],
            [common.createdAt, <Time key="created" at={authority.created_at} />],
          ]}
        />
      )}
      {authority && is_admin && (
        <Section title={text.settings}>
          <ResourceEditor
            resource={authorities}
            name={name}
            blank={{ name: "", public_key: "" }}
            draftOf={({ name, public_key }) => ({ name, public_key })}
            nameOf={(item) => (item.id === name ? item.id : addressOf(item))}
            deletion={{
              label: text.deleteAuthority,
              title: text.deleteAuthorityTitle(authority.name),
              text: text.deleteAuthorityText,
            }}
            onMoved={(moved) =>
              void navigate(
                moved === null
                  ? { to: "/people/ssh-authorities" }
                  : { to: "/people/ssh-authorities/$authority", params: { authority: moved } },
              )
            }
          >
            {(draft, set) => (
              <Field label={common.name} value={draft.name} onChange={(name) => set({ name })} isRequired />
            )}
          </ResourceEditor>
        </Section>
      )}
    </Page>
  );
}
