import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { durationsUpTo, firstDuration, type Hours, timeWindow } from "../../engines/access-times";
import { duration } from "../../engines/times";
import { language } from "../../messages";
import { Choice, Toggle } from "../../parts/choice";
import { ShownOnce } from "../../parts/dialog";
import { Field } from "../../parts/field";
import { FormDialog } from "../../parts/form-dialog";
import { Notice } from "../../parts/notice";
import type { Connection } from "./connection-form";
import styles from "./connections.module.css";
import { CredentialLines, type IssuedCredential } from "./credential-lines";
import { type Credential, issueCredential, ownCredentials } from "./credentials-data";
import { HowToConnect } from "./how-to-connect";
import { text } from "./messages";
import { OwnRequests } from "./own-requests";

const NEW = "new";

interface Draft extends Hours {
  /** The identifier of a credential, or `new`. */
  credential: string;
  seconds: string;
  reason: string;
  hasHours: boolean;
}

interface Props {
  connection: Connection;
  /** Seconds; null: no limit. */
  longest: number | null;
}

/**
 * Ask reviewers for access before one needs it, and see what came of it. What they give counts for one credential: its
 * first client connects at once, instead of waiting with an open connection.
 */
export function AskForAccess({ connection, longest }: Props) {
  const queries = useQueryClient();
  const credentials = useQuery({
    queryKey: ["credentials", "valid", connection.name],
    queryFn: () => ownCredentials(connection.name),
  });
  const [draft, setDraft] = useState(() => blankDraft(longest, []));
  const [issued, setIssued] = useState<IssuedCredential | null>(null);
  const [isFree, setFree] = useState(false);
  const set = (part: Partial<Draft>) => setDraft((before) => ({ ...before, ...part }));
  const ask = async () => {
    const time_window = draft.hasHours ? timeWindow(draft) : null;
    if (draft.hasHours && time_window === null) throw new Error(text.hoursMissing);
    const made = draft.credential === NEW ? await issueCredential(connection.name) : null;
    const credential_id = made?.id ?? draft.credential;
    set({ credential: credential_id }); // if the request fails, the next try is for the same one
    const { seconds, reason } = draft;
    const body = { connection: connection.name, credential_id, reason, access_duration: Number(seconds), time_window };
    try {
      const { required } = await unwrap(api.POST("/api/reviews", { body }));
      setFree(!required);
    } finally {
      if (made) setIssued(made); // also then: its password is shown only now
      await queries.invalidateQueries({ queryKey: ["credentials"] });
    }
    await queries.invalidateQueries({ queryKey: ["reviews"] });
  };
  return (
    <section aria-label={text.ask} className="stack">
      <h2>{text.ask}</h2>
      <p className="secondary">{text.askHint}</p>
      <div>
        <FormDialog
          label={text.askAction}
          title={text.askTitle(connection.name)}
          submit={text.askSubmit}
          kind="primary"
          isDisabled={credentials.isPending}
          onOpen={() => {
            setDraft(blankDraft(longest, credentials.data ?? []));
            setFree(false);
          }}
          action={ask}
        >
          <AskFields draft={draft} set={set} longest={longest} credentials={credentials.data ?? []} />
        </FormDialog>
      </div>
      <ShownOnce title={text.issuedTitle(connection.name)} isOpen={issued !== null} onClose={() => setIssued(null)}>
        {issued && <CredentialLines credential={issued} />}
      </ShownOnce>
      {isFree && (
        <Notice kind="ok">
          <p>{text.noReviewNeeded}</p>
        </Notice>
      )}
      <OwnRequests connection={connection} />
    </section>
  );
}

interface FieldsProps {
  draft: Draft;
  set: (part: Partial<Draft>) => void;
  longest: number | null;
  credentials: Credential[];
}

function AskFields({ draft, set, longest, credentials }: FieldsProps) {
  return (
    <>
      <Choice
        label={text.askFor}
        hint={text.askForHint}
        value={draft.credential}
        options={[
          [NEW, text.newCredential],
          ...credentials.map(({ id, username }) => [id, text.credential(username)] as const),
        ]}
        onChange={(credential) => set({ credential })}
      />
      <Choice
        label={text.askDuration}
        hint={text.askDurationHint}
        value={draft.seconds}
        options={durationsUpTo(longest).map((seconds) => [String(seconds), duration(seconds, language)] as const)}
        onChange={(seconds) => set({ seconds })}
      />
      <Field
        label={text.askReason}
        hint={text.askReasonHint}
        value={draft.reason}
        onChange={(reason) => set({ reason })}
        maxLength={1000}
      />
      <Toggle
        label={text.onlyHours}
        hint={text.onlyHoursHint}
        isOn={draft.hasHours}
        onChange={(hasHours) => set({ hasHours })}
      />
      {draft.hasHours && (
        <div className={styles.hours}>
          <Field label={text.from} type="time" value={draft.start} onChange={(start) => set({ start })} isRequired />
          <Field label={text.until} type="time" value={draft.end} onChange={(end) => set({ end })} isRequired />
          <Field label={text.zone} value={draft.zone} onChange={(zone) => set({ zone })} isRequired />
        </div>
      )}
    </>
  );
}

/** No approval is needed: nothing has to be asked for. */
export function NoReview({ connection }: { connection: Connection }) {
  return (
    <section aria-label={text.howTo} className="stack">
      <h2>{text.howTo}</h2>
      <p>{text.noReviewNeeded}</p>
      <HowToConnect connection={connection} />
    </section>
  );
}

function blankDraft(longest: number | null, credentials: Credential[]): Draft {
  return {
    credential: credentials[0]?.id ?? NEW,
    seconds: String(firstDuration(longest)),
    reason: "",
    hasHours: false,
    start: "09:00",
    end: "17:00",
    zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  };
}
