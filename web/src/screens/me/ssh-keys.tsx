import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { common } from "../../messages/common";
import { Confirm } from "../../parts/confirm";
import { Copy } from "../../parts/copy";
import { Field, LongField } from "../../parts/field";
import { FormDialog } from "../../parts/form-dialog";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Section } from "../../parts/section";
import { Time } from "../../parts/time";
import { text } from "./messages";

type SshKey = components["schemas"]["SshKeyAnswer"];
const KEY = ["ssh keys"];

/** The user's own public keys for SSH. */
export function SshKeys() {
  const queries = useQueryClient();
  const pages = usePages<SshKey>(KEY, (place) => unwrap(api.GET("/api/sshkeys", { params: { query: place } })));
  const refresh = () => void queries.invalidateQueries({ queryKey: KEY });
  const remove = (id: string) => unwrap(api.DELETE("/api/sshkeys/{nameOrID}", { params: { path: { nameOrID: id } } }));
  return (
    <Section title={text.sshKeys} actions={<NewSshKey onAdded={refresh} />}>
      <List
        label={text.sshKeys}
        pages={pages}
        keyOf={(row) => row.id}
        none={
          <div className="stack">
            <p>{text.noSshKeys}</p>
            <Copy label={common.commandLine} text="postern ssh-keys create ~/.ssh/id_ed25519.pub --name laptop" />
          </div>
        }
        columns={[
          { title: common.name, cell: ({ name }) => <MarkedText text={name} /> },
          { title: text.fingerprint, cell: ({ fingerprint }) => <code>{fingerprint}</code> },
          { title: common.createdAt, cell: ({ created_at }) => <Time at={created_at} /> },
          {
            title: text.lastUsed,
            cell: ({ last_used_at }) => (last_used_at ? <Time at={last_used_at} /> : text.never),
          },
          {
            title: text.deleteKey,
            cell: ({ id, name }) => (
              <Confirm
                label={text.deleteKey}
                title={text.deleteKeyTitle(name)}
                action={() => remove(id)}
                onDone={refresh}
              >
                {text.deleteKeyText}
              </Confirm>
            ),
          },
        ]}
      />
    </Section>
  );
}

function NewSshKey({ onAdded }: { onAdded: () => void }) {
  const [name, setName] = useState("");
  const [key, setKey] = useState("");
  const add = async () => {
    await unwrap(api.POST("/api/sshkeys", { body: { name: name.trim(), public_key: key.trim() } }));
    onAdded();
  };
  const clear = () => {
    setName("");
    setKey("");
  };
  return (
    <FormDialog label={text.addSshKey} title={text.addSshKey} submit={text.addSshKey} onOpen={clear} action={add}>
      <Field label={common.name} hint={text.sshKeyNameHint} value={name} onChange={setName} isRequired />
      <LongField label={text.publicKey} hint={text.publicKeyHint} value={key} onChange={setKey} isCode isRequired />
    </FormDialog>
  );
}
