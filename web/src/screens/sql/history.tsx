import { useSuspenseQuery } from "@tanstack/react-query";
import { useState } from "react";
import { userQuery } from "../../api/account";
import { api, unwrap } from "../../api/client";
import { usePages } from "../../api/pages";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Time } from "../../parts/time";
import { text } from "./messages";
import styles from "./sql.module.css";

interface Ran {
  id: string;
  start_date: string;
  /** Its beginning. */
  script: { data: string } | null;
}

/** The scripts that the user ran on the connection, newest first; one of them goes to the editor. */
export function History({ connection, onChoose }: { connection: string; onChoose: (script: string) => void }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button onPress={() => setOpen(true)}>{text.history}</Button>
      <Dialog title={text.historyTitle(connection)} isOpen={isOpen} onClose={() => setOpen(false)}>
        <Scripts
          connection={connection}
          onChoose={(script) => {
            setOpen(false);
            onChoose(script);
          }}
        />
      </Dialog>
    </>
  );
}

function Scripts({ connection, onChoose }: { connection: string; onChoose: (script: string) => void }) {
  const { data: user } = useSuspenseQuery(userQuery);
  const query = { connection, user: user?.email ?? "", verb: "exec" as const, expand: ["script"] };
  const pages = usePages(
    ["sessions", "history", connection],
    async (place) => {
      const page = await unwrap(api.GET("/api/sessions", { params: { query: { ...place, ...query } } }));
      return { ...page, data: page.data as unknown as Ran[] };
    },
    { limit: 50 },
  );
  return (
    <List
      label={text.history}
      pages={pages}
      keyOf={({ id }) => id}
      none={<p>{text.noHistory}</p>}
      columns={[
        { title: text.ranAt, cell: ({ start_date }) => <Time at={start_date} /> },
        {
          title: text.editor,
          cell: ({ script }) => (
            <pre className={styles.past}>
              <MarkedText text={script?.data ?? ""} />
            </pre>
          ),
        },
        { title: text.actions, cell: ({ id }) => <Use id={id} onChoose={onChoose} /> },
      ]}
    />
  );
}

/** The list has the beginning of each script; the whole is read when it is chosen. */
function Use({ id, onChoose }: { id: string; onChoose: (script: string) => void }) {
  const choose = async () => {
    const params = { path: { session_id: id } };
    const session = (await unwrap(api.GET("/api/sessions/{session_id}", { params }))) as {
      script: { data: string } | null;
    };
    onChoose(session.script?.data ?? "");
  };
  return <Button onPress={() => void choose()}>{text.use}</Button>;
}
