import type { ReactNode } from "react";
import { Copy } from "../../parts/copy";
import { ShownOnce } from "../../parts/dialog";
import { Facts } from "../../parts/facts";
import { MarkedText } from "../../parts/marked-text";
import { text } from "./messages";
import type { IssuedCredential } from "./resources";

/** User names with their passwords, which are nowhere else. */
export function IssuedCredentialsDialog({
  credentials,
  onClose,
}: {
  credentials: IssuedCredential[];
  onClose: () => void;
}) {
  return (
    <ShownOnce title={text.newCredentials} isOpen={credentials.length > 0} onClose={onClose}>
      {credentials.map((credential) => (
        <Facts key={credential.id} facts={factsOf(credential)} />
      ))}
    </ShownOnce>
  );
}

function factsOf(credential: IssuedCredential): [string, ReactNode][] {
  const facts: [string, ReactNode][] = [
    [text.connection, <MarkedText key="connection" text={credential.connection_name} />],
    [text.host, <code key="host">{`${credential.host}:${credential.port}`}</code>],
  ];
  if (credential.database) facts.push([text.database, <MarkedText key="database" text={credential.database} />]);
  facts.push([text.username, <Copy key="username" label={text.username} text={credential.username} />]);
  if (credential.client_certificate) {
    const { certificate_file, certificate, key_file, private_key } = credential.client_certificate;
    facts.push([text.certificate, <Copy key="certificate" label={certificate_file} text={certificate} />]);
    facts.push([text.privateKey, <Copy key="key" label={key_file} text={private_key} />]);
  } else {
    facts.push([text.password, <Copy key="password" label={text.password} text={credential.password} />]);
  }
  return facts;
}
