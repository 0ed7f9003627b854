import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import { usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { counted } from "../../messages";
import { Button } from "../../parts/button";
import { Confirm } from "../../parts/confirm";
import { Copy } from "../../parts/copy";
import { ShownOnce } from "../../parts/dialog";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { IntegrationsPage } from "./integrations-page";
import { text } from "./messages";

type Account = components["schemas"]["ChatLinkAnswer"];

const COLUMNS: Column<Account>[] = [
  { title: text.chat.user, cell: ({ email }) => <MarkedText text={email} /> },
  {
    title: text.chat.account,
    cell: ({ chat_id }) => (
      <span className="mono">
        <MarkedText text={chat_id} />
      </span>
    ),
  },
  { title: text.chat.linked, cell: ({ created_at }) => <Time at={created_at} isExact /> },
  { title: text.chat.actions, cell: (account) => <Unlink account={account} /> },
];

/** Accounts of chats with which users decide: the user's own, or all for administrators and auditors. */
export function ChatScreen() {
  const read = (place: object) => unwrap(api.GET("/api/chat/accounts", { params: { query: place } }));
  const pages = usePages(["chat accounts"], read);
  return (
    <IntegrationsPage path="/integrations/chat" aside={<LinkAccount />}>
      <p className="secondary">{text.chat.about}</p>
      <List
        label={text.views.chat}
        pages={pages}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        none={
          <>
            <p>{text.chat.none}</p>
            <Copy label={text.chat.none} text={text.chat.cli} />
          </>
        }
      />
    </IntegrationsPage>
  );
}

function LinkAccount() {
  const queries = useQueryClient();
  const create = useMutation({ gcTime: 0, mutationFn: () => unwrap(api.POST("/api/chat/link")) });
  const close = () => {
    create.reset();
    void queries.invalidateQueries({ queryKey: ["chat accounts"] });
  };
  return (
    <>
      <Button kind="primary" onPress={() => create.mutate()} isDisabled={create.isPending}>
        {text.chat.link}
      </Button>
      {create.error && <Failure error={create.error} />}
      <ShownOnce title={text.chat.codeTitle} isOpen={create.data !== undefined} onClose={close}>
        {create.data && (
          <>
            <Copy label={text.chat.code} text={create.data.code} />
            <p>{text.chat.codeHint}</p>
            <Copy label={text.chat.command} text={text.chat.enter(create.data.code)} />
            <p>{counted(text.chat.expires, Math.round(create.data.expires_in / 60))}</p>
          </>
        )}
      </ShownOnce>
    </>
  );
}

function Unlink({ account: { id, chat_id } }: { account: Account }) {
  const queries = useQueryClient();
  return (
    <Confirm
      label={text.chat.unlink}
      title={text.chat.unlinkTitle(chat_id)}
      action={() => unwrap(api.DELETE("/api/chat/accounts/{id}", { params: { path: { id } } }))}
      onDone={() => void queries.invalidateQueries({ queryKey: ["chat accounts"] })}
    >
      {text.chat.unlinkText}
    </Confirm>
  );
}
