import { duration } from "../../engines/times";
import { language } from "../../messages";
import { Field, LongField, NumberField } from "../../parts/field";
import { Fields, Form } from "../../parts/form";
import { MarkedText } from "../../parts/marked-text";
import { Notice } from "../../parts/notice";
import { text } from "./messages";
import type { Needs } from "./needs";

/** What is sent with the request for a terminal. */
export interface Draft {
  reason: string;
  minutes: number | null;
  /** Values of the issue, by the tracker's name of the field. */
  issue: ReadonlyMap<string, string>;
}

export const BLANK: Draft = { reason: "", minutes: null, issue: new Map() };

interface Props {
  needs: Needs;
  draft: Draft;
  onChange: (draft: Draft) => void;
  onOpen: () => void;
}

/** Before a terminal: what its review and its issue need. */
export function StartForm({ needs, draft, onChange, onOpen }: Props) {
  const set = (part: Partial<Draft>) => onChange({ ...draft, ...part });
  const setIssue = (field: string, value: string) => set({ issue: new Map(draft.issue).set(field, value) });
  const { review, prompts } = needs;
  const longest = review?.access_max_duration ? duration(review.access_max_duration, language) : null;
  return (
    <Form submit={text.open} onSubmit={onOpen} isBusy={false} error={null}>
      {review && (
        <Notice kind="held">
          <p>
            <MarkedText text={review.reason} />
          </p>
        </Notice>
      )}
      {review && (
        <Fields title={text.request}>
          <LongField
            label={text.reason}
            hint={text.reasonHint}
            value={draft.reason}
            onChange={(reason) => set({ reason })}
            maxLength={1_000}
            rows={2}
          />
          <NumberField
            label={text.minutes}
            hint={text.minutesHint(longest)}
            value={draft.minutes}
            onChange={(minutes) => set({ minutes })}
          />
        </Fields>
      )}
      {prompts.length > 0 && (
        <Fields title={text.issue}>
          <p className="secondary">{text.issueHint}</p>
          {prompts.map(({ field, label, hint, isRequired }) => (
            <Field
              key={field}
              label={label}
              hint={hint || undefined}
              value={draft.issue.get(field) ?? ""}
              onChange={(value) => setIssue(field, value)}
              isRequired={isRequired}
              maxLength={4_000}
            />
          ))}
        </Fields>
      )}
      <p>
        {text.recorded} {text.ends}
      </p>
    </Form>
  );
}
