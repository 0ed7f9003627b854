import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { exactTime } from "../../engines/times";
import { language } from "../../messages";
import { Chip } from "../../parts/chip";
import { Choice } from "../../parts/choice";
import { Facts } from "../../parts/facts";
import { Field } from "../../parts/field";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import { Section } from "../../parts/section";
import { type Column, Table } from "../../parts/table";
import { useSettled } from "../../parts/use-settled";
import { text } from "./messages";
import { isComplete, promptsOf, type TemplateDraft } from "./template-draft";

type Preview = components["schemas"]["IssuePreviewAnswer"];
type Unfilled = Pick<Preview["unfilled"][number], "tracker_field" | "source" | "state" | "required">;

const PAUSE = 350; // milliseconds without a key after which the issue is rendered
const EXAMPLE = "example";
const LISTED = 20; // sessions to choose from
const KINDS = { unknown: "refused", empty: "held", prompted: "info" } as const;

const COLUMNS: Column<Unfilled>[] = [
  {
    title: text.template.field,
    cell: ({ tracker_field }) => (
      <span className="mono">
        <MarkedText text={tracker_field} />
      </span>
    ),
  },
  { title: text.preview.source, cell: ({ source }) => <MarkedText text={source} /> },
  {
    title: text.preview.why,
    cell: ({ state, required }) => (
      <Chip kind={KINDS[state]}>{required ? text.preview.required : text.preview.states[state]}</Chip>
    ),
  },
];

/** The issue that the template in the form creates, while it is typed. Nothing is sent to the tracker. */
export function TemplatePreview({ draft }: { draft: TemplateDraft }) {
  const [session, setSession] = useState(EXAMPLE);
  const [values, setValues] = useState<Record<string, string>>({});
  const prompts = promptsOf(draft);
  const given = Object.fromEntries(prompts.map(({ field }) => [field, values[field] ?? ""]));
  return (
    <Section title={text.preview.title}>
      <p className="secondary">{text.preview.about}</p>
      <SessionChoice value={session} onChange={setSession} />
      {prompts.map(({ field, label, isTime }) => (
        <Field
          key={field}
          label={text.preview.answer(label)}
          type={isTime ? "datetime-local" : "text"}
          value={given[field] ?? ""}
          onChange={(value) => setValues({ ...values, [field]: value })}
        />
      ))}
      {isComplete(draft) ? (
        <Result draft={draft} session={session === EXAMPLE ? null : session} values={given} />
      ) : (
        <p className="secondary">{text.preview.incomplete}</p>
      )}
    </Section>
  );
}

function SessionChoice({ value, onChange }: { value: string; onChange: (id: string) => void }) {
  const sessions = useQuery({
    queryKey: ["sessions", "newest", LISTED],
    staleTime: 30_000,
    queryFn: () => unwrap(api.GET("/api/sessions", { params: { query: { limit: LISTED } } })),
  });
  const options = (sessions.data?.data ?? []).map(
    ({ id, connection, user, start_date }) =>
      [id, text.preview.session(connection, user, exactTime(start_date, language))] as const,
  );
  return (
    <Choice
      label={text.preview.forSession}
      value={value}
      options={[[EXAMPLE, text.preview.example], ...options]}
      onChange={onChange}
    />
  );
}

interface ResultProps {
  draft: TemplateDraft;
  session: string | null;
  values: Record<string, string>;
}

function Result({ draft, session, values }: ResultProps) {
  const body = useSettled({ template: draft, session_id: session, tracker_fields: values }, PAUSE);
  const preview = useQuery({
    queryKey: ["issue template preview", body],
    placeholderData: keepPreviousData,
    gcTime: 0,
    retry: false,
    queryFn: () => unwrap(api.POST("/api/integrations/tracker/issuetemplates/preview", { body })),
  });
  if (preview.error) return <Failure error={preview.error} />;
  return preview.data ? <Issue preview={preview.data} /> : null;
}

function Issue({ preview }: { preview: Preview }) {
  const { project_key, request_type_id, summary, fields, unfilled } = preview;
  return (
    <>
      <Facts
        facts={[
          [text.templates.project, <MarkedText key="project" text={project_key} />],
          [text.template.requestType, <MarkedText key="type" text={request_type_id} />],
          [text.preview.summary, <MarkedText key="summary" text={summary} />],
          ...fields.map(({ tracker_field, value, object_type }) => {
            const name = object_type === null ? tracker_field : text.preview.asset(tracker_field, object_type);
            return [name, <MarkedText key={tracker_field} text={value} />] as const;
          }),
        ]}
      />
      <section aria-label={text.preview.text} className="words mono">
        <MarkedText text={preview.text} />
      </section>
      <div role="status">{unfilled.length === 0 ? text.preview.complete : text.preview.unfilled}</div>
      {unfilled.length > 0 && (
        <Table
          label={text.preview.unfilled}
          columns={COLUMNS}
          rows={unfilled}
          keyOf={({ tracker_field, source }) => `${tracker_field} ${source}`}
        />
      )}
    </>
  );
}
