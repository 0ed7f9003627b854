import { useState } from "react";
import type { components } from "../../api/schema";
import { Copy } from "../../parts/copy";
import { Download } from "../../parts/download";
import { Tabs } from "../../parts/tabs";
import { Time } from "../../parts/time";
import { text } from "./messages";

export type IssuedCredential = components["schemas"]["IssuedCredentialAnswer"];
type Line = components["schemas"]["ClientLineAnswer"];
type Identity = components["schemas"]["GatewayIdentityAnswer"];

/** A new credential, with what to paste for each client, and what these verify the gateway by. */
export function CredentialLines({ credential }: { credential: IssuedCredential }) {
  const { lines, gateway_identity: identity, username, password, expires_at } = credential;
  const [client, setClient] = useState(lines[0]?.name ?? "");
  return (
    <>
      <Copy label={text.username} text={username} />
      <Copy label={text.password} text={password} />
      {expires_at && (
        <p>
          {text.expires}: <Time at={expires_at} />
        </p>
      )}
      {lines.length > 0 && (
        <Tabs
          label={text.clients}
          tabs={lines.map((line) => ({ id: line.name, title: clientName(line), line }))}
          selected={client}
          onSelect={setClient}
        >
          {({ line }) => <ClientLine line={line} />}
        </Tabs>
      )}
      <GatewayIdentity identity={identity} />
      <p className="secondary">{text.allCredentials}</p>
    </>
  );
}

function ClientLine({ line }: { line: Line }) {
  return (
    <div className="stack">
      <Copy label={clientName(line)} text={line.text} />
      <p className="secondary">{text.passwordOf[line.password]}</p>
      {line.variable && line.password !== "line" && <p className="secondary">{text.fromVariable(line.variable)}</p>}
    </div>
  );
}

function clientName({ name }: Line): string {
  const names: Record<string, string> = text.clientNames;
  return names[name] ?? name;
}

/** What clients verify the gateway by: its certificate authority, or its host key. */
function GatewayIdentity({ identity }: { identity: Identity }) {
  const { ca_certificate, ca_file, ssh_known_hosts, ssh_host_key_fingerprint } = identity;
  return (
    <>
      {ca_certificate && ca_file && (
        <section className="stack" aria-label={text.authority}>
          <h3>{text.authority}</h3>
          <p>{text.authorityHint(ca_file)}</p>
          <div className="row">
            <Download label={text.downloadAuthority(ca_file)} name={ca_file} content={() => ca_certificate} />
          </div>
          <details>
            <summary>{text.showAuthority}</summary>
            <Copy label={ca_file} text={ca_certificate} />
          </details>
        </section>
      )}
      {ssh_known_hosts && (
        <section className="stack" aria-label={text.hostKey}>
          <h3>{text.hostKey}</h3>
          <p>{text.hostKeyHint}</p>
          <Copy label={text.knownHosts} text={ssh_known_hosts} />
          {ssh_host_key_fingerprint && <Copy label={text.fingerprint} text={ssh_host_key_fingerprint} />}
        </section>
      )}
    </>
  );
}
