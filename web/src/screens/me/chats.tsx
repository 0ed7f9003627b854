import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { useUser } from "../../app/user";
import { duration } from "../../engines/times";
import { language } from "../../messages";
import { common } from "../../messages/common";
import { Button } from "../../parts/button";
import { Confirm } from "../../parts/confirm";
import { Copy } from "../../parts/copy";
import { ShownOnce } from "../../parts/dialog";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import { Section } from "../../parts/section";
import { Time } from "../../parts/time";
import { text } from "./messages";

type Chat = components["schemas"]["ChatLinkAnswer"];
type ChatCode = components["schemas"]["ChatCodeAnswer"];
const KEY = ["chat accounts"];

/** Accounts of chats in which the user decides reviews. */
export function ChatAccounts() {
  const queries = useQueryClient();
  const { email } = useUser();
  const pages = usePages<Chat>(KEY, async (place) => {
    const page = await unwrap(api.GET("/api/chat/accounts", { params: { query: place } }));
    return { ...page, data: page.data.filter((account) => account.email === email) }; // administrators see everybody's
  });
  const refresh = () => void queries.invalidateQueries({ queryKey: KEY });
  const unlink = (id: string) => unwrap(api.DELETE("/api/chat/accounts/{id}", { params: { path: { id } } }));
  return (
    <Section title={text.chats} actions={<LinkChat onLinked={refresh} />}>
      <List
        label={text.chats}
        pages={pages}
        keyOf={(row) => row.id}
        none={<p>{text.noChats}</p>}
        columns={[
          { title: text.chat, cell: ({ chat_id }) => <MarkedText text={chat_id} /> },
          { title: common.createdAt, cell: ({ created_at }) => <Time at={created_at} /> },
          {
            title: text.unlink,
            cell: ({ id }) => (
              <Confirm label={text.unlink} title={text.unlinkTitle} action={() => unlink(id)} onDone={refresh}>
                {text.unlinkText}
              </Confirm>
            ),
          },
        ]}
      />
    </Section>
  );
}

function LinkChat({ onLinked }: { onLinked: () => void }) {
  const [code, setCode] = useState<ChatCode | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const begin = async () => {
    setError(null);
    try {
      setCode(await unwrap(api.POST("/api/chat/link")));
    } catch (failure) {
      setError(failure as Error);
    }
  };
  const close = () => {
    setCode(null);
    onLinked();
  };
  return (
    <>
      <Button onPress={() => void begin()}>{text.linkChat}</Button>
      {error && <Failure error={error} />}
      <ShownOnce title={text.chatCodeTitle} isOpen={code !== null} onClose={close}>
        {code && (
          <>
            <Copy label={text.chatCode} text={`/postern ${code.code}`} />
            <p>{text.chatCodeUntil(duration(code.expires_in, language))}</p>
          </>
        )}
      </ShownOnce>
    </>
  );
}
