import type { components } from "../../api/schema";
import { common } from "../../messages/common";
import { MarkedText } from "../../parts/marked-text";
import { text } from "./messages";

type Review = Pick<components["schemas"]["ReviewAnswer"], "type" | "client_address" | "credential" | "in_advance">;

/** What is requested; for access in advance, also for which clients. */
export function RequestKind({ review: { type, credential, in_advance } }: { review: Review }) {
  const clients = credential ? text.list.inAdvance.credential : text.list.inAdvance.login;
  return (
    <>
      {common.reviewKinds[type]}
      {in_advance && ` (${clients})`}
    </>
  );
}

/** The client that a review is for, by its address and its credential. `isFull`: with the credential's ID. */
export function ReviewClient({ review: { client_address, credential }, isFull }: { review: Review; isFull?: boolean }) {
  return (
    <>
      <span className="mono">
        <MarkedText text={client_address} />
      </span>
      {credential && (
        <>
          {` ${text.list.withCredential} `}
          <span className="mono">
            <MarkedText text={credential.username} />
          </span>
          {isFull && (
            <>
              {" ("}
              <span className="mono">{credential.id}</span>)
            </>
          )}
        </>
      )}
    </>
  );
}
