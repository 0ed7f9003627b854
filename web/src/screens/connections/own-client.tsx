import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Button } from "../../parts/button";
import { CredentialList } from "../../parts/credential-list";
import { ShownOnce } from "../../parts/dialog";
import { Failure } from "../../parts/notice";
import type { Connection } from "./connection-form";
import { CredentialLines } from "./credential-lines";
import { issueCredential, ownCredentials } from "./credentials-data";
import { text } from "./messages";

/** A credential for one's own client, with the line to paste; and the credentials that one has already. */
export function OwnClient({ connection: { name } }: { connection: Connection }) {
  const queries = useQueryClient();
  const issue = useMutation({
    gcTime: 0, // the password is kept nowhere after the dialog
    mutationFn: () => issueCredential(name),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["credentials"] }),
  });
  return (
    <section className="stack" aria-label={text.ownClient}>
      <h2>{text.ownClient}</h2>
      <p className="secondary">{text.ownClientHint}</p>
      <div>
        <Button kind="primary" onPress={() => issue.mutate()} isDisabled={issue.isPending}>
          {text.issue}
        </Button>
      </div>
      {issue.error && <Failure error={issue.error} />}
      <CredentialList
        label={text.credentials}
        listKey={["of", name]}
        read={async () => ({ data: await ownCredentials(name) })}
        none={null}
      />
      <ShownOnce title={text.issuedTitle(name)} isOpen={issue.isSuccess} onClose={() => issue.reset()}>
        {issue.data && <CredentialLines credential={issue.data} />}
      </ShownOnce>
    </section>
  );
}
