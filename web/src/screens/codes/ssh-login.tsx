import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { useUser } from "../../app/user";
import { Field } from "../../parts/field";
import { MarkedText } from "../../parts/marked-text";
import { Time } from "../../parts/time";
import { Address } from "./address";
import { CodePage } from "./code-page";
import { text } from "./messages";

type Client = components["schemas"]["SshLoginAnswer"];

/** Confirm that an SSH client is one's own, by the number that only its terminal shows. */
export function SshLoginScreen() {
  const { user_code = "" } = useSearch({ from: "/shell/ssh-login" });
  const navigate = useNavigate({ from: "/ssh-login" });
  const { email } = useUser();
  const [number, setNumber] = useState("");
  return (
    <CodePage<Client>
      title={text.ssh.title}
      codeLabel={text.ssh.code}
      code={user_code}
      onCode={(code) => void navigate({ search: code ? { user_code: code } : {} })}
      look={(code) => unwrap(api.GET("/api/sshlogins", { params: { query: { code } } }))}
      decide={({ code }, answer) =>
        unwrap(api.POST("/api/sshlogins/confirm", { body: { code, answer, number: number.trim() } }))
      }
      asks={text.ssh.asks(email)}
      factsOf={(client) => [
        [text.ssh.connection, <MarkedText key="connection" text={client.connection || text.ssh.anyConnection} />],
        [text.ssh.user, <MarkedText key="user" text={client.user} />],
        [text.device.address, <Address key="address" address={client.address} yours={client.your_address} />],
        [text.device.program, <MarkedText key="program" text={client.client || text.device.unknown} />],
        [text.device.since, <Time key="since" at={client.since} />],
      ]}
      warning={text.ssh.warning}
      allow={text.ssh.allow}
      outcomes={{ allow: text.ssh.allowed, deny: text.ssh.denied }}
    >
      <Field
        label={text.ssh.number}
        value={number}
        onChange={setNumber}
        inputMode="numeric"
        autoComplete="off"
        maxLength={8}
        autoFocus
      />
    </CodePage>
  );
}
