import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { formatBytes, formatNumber } from "../../engines/numbers";
import { language } from "../../messages";
import { NumberField } from "../../parts/field";
import { Form } from "../../parts/form";
import { Failure } from "../../parts/notice";
import { Section } from "../../parts/section";
import { Stats } from "../../parts/stats";
import { Time } from "../../parts/time";
import { useSettled } from "../../parts/use-settled";
import type { Days } from "./days";
import { text } from "./messages";

const PAUSE = 400; // milliseconds without a key after which it is asked what would be purged

interface Props {
  start: Days;
  /** The connection whose retention it is; without one, the organisation's. */
  connection?: string | undefined;
  isReadOnly?: boolean;
  onSaved?: () => void;
}

/** How long recordings and sessions are kept, and what that would purge. */
export function RetentionForm({ start, connection, isReadOnly = false, onSaved }: Props) {
  const [days, setDays] = useState<Days>({
    recording_days: start.recording_days,
    session_days: start.session_days,
  });
  const queries = useQueryClient();
  const save = useMutation({
    mutationFn: () => saveRetention(days, connection),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["retention"] });
      onSaved?.();
    },
  });
  return (
    <>
      <Form
        submit={text.policy.save}
        onSubmit={() => save.mutate()}
        isBusy={isReadOnly || save.isPending}
        error={save.error}
        isSaved={save.isSuccess}
      >
        <NumberField
          label={text.policy.recording}
          hint={text.policy.recordingHint}
          value={days.recording_days}
          onChange={(recording_days) => setDays({ ...days, recording_days })}
          isDisabled={isReadOnly}
        />
        <NumberField
          label={text.policy.session}
          hint={text.policy.sessionHint}
          value={days.session_days}
          onChange={(session_days) => setDays({ ...days, session_days })}
          isDisabled={isReadOnly}
        />
      </Form>
      <Preview days={days} connection={connection} />
    </>
  );
}

function saveRetention(body: Days, connection: string | undefined) {
  if (connection === undefined) return unwrap(api.PUT("/api/retention", { body }));
  const params = { path: { nameOrID: connection } };
  return unwrap(api.PUT("/api/retention/connections/{nameOrID}", { params, body }));
}

function Preview({ days, connection }: { days: Days; connection: string | undefined }) {
  const { recording_days, session_days } = useSettled(days, PAUSE);
  const query = {
    ...(recording_days !== null && { recording_days }),
    ...(session_days !== null && { session_days }),
    ...(connection !== undefined && { connection }),
  };
  const preview = useQuery({
    queryKey: ["retention", "preview", query],
    queryFn: () => unwrap(api.GET("/api/retention/preview", { params: { query } })),
  });
  const data = preview.data;
  return (
    <Section title={text.preview.title}>
      {preview.error && <Failure error={preview.error} />}
      {data && data.recordings === 0 && data.sessions === 0 && data.held === 0 && (
        <p className="secondary">{text.preview.nothing}</p>
      )}
      {data && (data.recordings > 0 || data.sessions > 0 || data.held > 0) && (
        <Stats
          label={text.preview.title}
          stats={[
            [text.preview.recordings, formatNumber(data.recordings, language)],
            [text.preview.sessions, formatNumber(data.sessions, language)],
            [text.preview.size, formatBytes(data.stored_size, language)],
            [text.preview.held, formatNumber(data.held, language)],
            ...(data.oldest ? [[text.preview.oldest, <Time key="oldest" at={data.oldest} />] as const] : []),
          ]}
        />
      )}
    </Section>
  );
}
