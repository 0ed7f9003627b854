import { Link } from "@tanstack/react-router";
import { api, unwrap } from "../../api/client";
import { CredentialList } from "../../parts/credential-list";
import { MarkedText } from "../../parts/marked-text";
import { Section } from "../../parts/section";
import { text } from "./messages";

/** The credentials of the user's own clients, of all connections. */
export function Credentials() {
  return (
    <Section title={text.credentials}>
      <CredentialList
        label={text.credentials}
        listKey={["own"]}
        read={(place) => unwrap(api.GET("/api/credentials", { params: { query: { ...place, status: "active" } } }))}
        none={<p>{text.noCredentials}</p>}
        connection={(name) => (
          <Link to="/connections/$name" params={{ name }} className="mono">
            <MarkedText text={name} />
          </Link>
        )}
      />
    </Section>
  );
}
