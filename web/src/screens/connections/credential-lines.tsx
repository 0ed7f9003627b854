import { useState } from "react";
import type { components } from "../../api/schema";
import { Copy } from "../../parts/copy";
import { Download } from "../../parts/download";
import { Tabs } from "../../parts/tabs";
import { Time } from "../../parts/time";
import { text } from "./messages";

export type IssuedCredential = components["schemas"]["IssuedCredentialAnswer"];
type Line = components["schemas"]["ClientLineAnswer"];
type Certificate = components["schemas"]["ClientCertificateAnswer"];
type Identity = components["schemas"]["GatewayIdentityAnswer"];

/** A new credential, with what to paste for each client, and what these verify the gateway by. */
export function CredentialLines({ credential }: { credential: IssuedCredential }) {
  const { lines, gateway_identity: identity, username, password, expires_at } = credential;
  const { client_certificate: certificate } = credential;
  const [client, setClient] = useState(lines[0]?.name ?? "");
  return (
    <>
      <Copy label={text.username} text={username} />
      {certificate ? <ClientCertificate certificate={certificate} /> : <Copy label={text.password} text={password} />}
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

/** A certificate and its private key, which are shown only once, like a password. */
export function ClientCertificate({ certificate }: { certificate: Certificate }) {
  const { certificate_file, key_file } = certificate;
  const files: [string, string][] = [
    [certificate_file, certificate.certificate],
    [key_file, certificate.private_key],
  ];
  return (
    <section className="stack" aria-label={text.certificate}>
      <h3>{text.certificate}</h3>
      <p>{text.certificateHint(certificate_file, key_file)}</p>
      <div className="row">
        {files.map(([name, content]) => (
          <Download key={name} label={text.downloadFile(name)} name={name} content={() => content} />
        ))}
      </div>
      <details>
        <summary>{text.showCertificate}</summary>
        {files.map(([name, content]) => (
          <Copy key={name} label={name} text={content} />
        ))}
      </details>
    </section>
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
