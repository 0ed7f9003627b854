import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, setCsrfToken, unwrap } from "../../api/client";
import { announceLogOut } from "../../api/login-keeper";
import { usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { common } from "../../messages/common";
import { Chip } from "../../parts/chip";
import { Confirm } from "../../parts/confirm";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Section } from "../../parts/section";
import { Time } from "../../parts/time";
import { text } from "./messages";

type Login = components["schemas"]["LoginShown"];
const KEY = ["logins"];

/** Where the user is logged in: browsers, command lines, SSH clients. */
export function Logins() {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const pages = usePages<Login>(KEY, (place) => unwrap(api.GET("/api/logins", { params: { query: place } })));
  const refresh = () => void queries.invalidateQueries({ queryKey: KEY });
  const endAll = (keep_current: boolean) => unwrap(api.DELETE("/api/logins", { params: { query: { keep_current } } }));
  const end = (login_id: string) => unwrap(api.DELETE("/api/logins/{login_id}", { params: { path: { login_id } } }));
  const leave = () => {
    setCsrfToken(null);
    announceLogOut();
    void navigate({ to: "/login" }).then(() => queries.clear());
  };
  return (
    <Section
      title={text.logins}
      actions={
        <>
          <Confirm
            label={text.endOthers}
            title={text.endOthersTitle}
            action={() => endAll(true)}
            onDone={refresh}
            isDisabled={pages.rows.length < 2}
          >
            {text.endOthersText}
          </Confirm>
          <Confirm label={text.everywhere} title={text.everywhereTitle} action={() => endAll(false)} onDone={leave}>
            {text.everywhereText}
          </Confirm>
        </>
      }
    >
      <List
        label={text.logins}
        pages={pages}
        keyOf={(login) => login.id}
        none={null}
        columns={[
          {
            title: text.client,
            cell: ({ client }) => <span className="nowrap">{text.clients[client] ?? client}</span>,
          },
          { title: text.program, cell: ({ user_agent }) => <MarkedText text={user_agent} /> },
          { title: text.address, cell: ({ source }) => <span className="mono nowrap">{source}</span> },
          { title: common.createdAt, cell: ({ created_at }) => <Time at={created_at} /> },
          { title: text.expires, cell: ({ ends_at }) => <Time at={ends_at} /> },
          {
            title: text.endLogin,
            cell: ({ id, current }) =>
              current ? (
                <Chip kind="ok">{text.current}</Chip>
              ) : (
                <Confirm label={text.endLogin} title={text.endLoginTitle} action={() => end(id)} onDone={refresh}>
                  {text.endLoginText}
                </Confirm>
              ),
          },
        ]}
      />
    </Section>
  );
}
