import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { runbookQuery, runbooksQuery } from "../../api/runbooks";
import { ownZone } from "../../engines/periods";
import { defaultsOf } from "../../engines/runbooks";
import { common } from "../../messages/common";
import { Choice, Toggle } from "../../parts/choice";
import { Field } from "../../parts/field";
import { Fields } from "../../parts/form";
import { MarkedText } from "../../parts/marked-text";
import { NameChoice } from "../../parts/name-choice";
import { Pairs } from "../../parts/names";
import { Failure } from "../../parts/notice";
import type { Schedule, ScheduleDraft } from "./data";
import { text } from "./messages";
import { ParameterFields } from "./parameter-fields";

interface Props {
  draft: ScheduleDraft;
  set: (part: Partial<ScheduleDraft>) => void;
  saved: Schedule | null;
  isReadOnly: boolean;
}

/** What runs, where, when and with which values. */
export function ScheduleFields({ draft, set, saved, isReadOnly }: Props) {
  const zones = [...new Set([ownZone(), "UTC", draft.zone, ...Intl.supportedValuesOf("timeZone")])];
  return (
    <>
      <Field label={common.name} value={draft.name} onChange={(name) => set({ name })} maxLength={128} isRequired />
      {isReadOnly ? <FixedRunbook draft={draft} /> : <RunbookFields draft={draft} set={set} saved={saved} />}
      <Field
        label={text.schedule.cron}
        hint={text.schedule.cronHint}
        value={draft.cron}
        onChange={(cron) => set({ cron })}
        maxLength={128}
        isRequired
      />
      <NameChoice label={text.schedule.zone} value={draft.zone} options={zones} onChange={(zone) => set({ zone })} />
      <Toggle label={text.schedule.enabled} isOn={draft.enabled} onChange={(enabled) => set({ enabled })} />
      {isReadOnly ? (
        <p className="secondary">
          <MarkedText text={storedWords(saved)} />
        </p>
      ) : (
        <>
          <ParametersOf draft={draft} set={set} saved={saved} />
          <IssueFields draft={draft} set={set} saved={saved} />
        </>
      )}
    </>
  );
}

/** Who only reads it need not be allowed to run the runbook, so that no list has it. */
function FixedRunbook({ draft }: { draft: ScheduleDraft }) {
  return (
    <>
      <Field label={text.schedule.repository} value={draft.repository} />
      <Field label={text.schedule.file} value={draft.file} />
      <Field label={text.schedule.connection} value={draft.connection} />
    </>
  );
}

type FieldsProps = Omit<Props, "isReadOnly">;

function RunbookFields({ draft, set, saved }: FieldsProps) {
  const list = useQuery(runbooksQuery());
  const found = list.data?.repositories ?? [];
  const names = [...new Set([...(draft.repository ? [draft.repository] : []), ...found.map((one) => one.repository)])];
  const repository = draft.repository || (names.length === 1 ? (names[0] ?? "") : "");
  useEffect(() => {
    if (repository !== draft.repository) set({ repository });
  }, [repository, draft.repository, set]);
  const items = found.find((one) => one.repository === repository)?.items.filter(({ error }) => error === null) ?? [];
  const connections = items.find(({ name }) => name === draft.file)?.connections ?? [];
  const choose = (part: Partial<ScheduleDraft>) => set({ ...part, ...(saved === null && { parameters: {} }) });
  return (
    <>
      {list.error && <Failure error={list.error} onRetry={() => void list.refetch()} />}
      {list.data === null && <p>{text.list.noRepository}</p>}
      {names.length > 1 && (
        <Choice
          label={text.schedule.repository}
          value={repository}
          options={names.map((name) => [name, name] as const)}
          onChange={(repository) => choose({ repository, file: "", connection: "" })}
        />
      )}
      <NameChoice
        label={text.schedule.file}
        hint={text.schedule.fileHint}
        value={draft.file}
        options={[...new Set([...(draft.file ? [draft.file] : []), ...items.map(({ name }) => name)])]}
        onChange={(file) => choose({ repository, file })}
      />
      <NameChoice
        label={text.schedule.connection}
        value={draft.connection}
        options={[...new Set([...(draft.connection ? [draft.connection] : []), ...connections])]}
        onChange={(connection) => set({ connection })}
      />
    </>
  );
}

/** The runbook's parameters. Stored values are never shown: they are kept, or all of them are replaced. */
function ParametersOf({ draft, set, saved }: FieldsProps) {
  const query = useQuery(runbookQuery(draft.repository, draft.file));
  const metadata = query.data?.metadata;
  const { parameters } = draft;
  const values = { ...(metadata && defaultsOf(metadata)), ...parameters };
  return (
    <Fields title={text.schedule.parameters}>
      {saved && <p className="secondary">{storedWords(saved)}</p>}
      {saved && (
        <Toggle
          label={text.schedule.replace}
          hint={text.schedule.replaceHint}
          isOn={parameters !== null}
          onChange={(isOn) => set({ parameters: isOn ? {} : null })}
        />
      )}
      {parameters !== null && !draft.file && <p className="secondary">{text.schedule.chooseRunbook}</p>}
      {parameters !== null && query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {parameters !== null && metadata && (
        <ParameterFields
          metadata={metadata}
          values={values}
          onChange={(name, value) => set({ parameters: { ...parameters, [name]: value } })}
        />
      )}
    </Fields>
  );
}

function storedWords(saved: Schedule | null): string {
  const names = saved?.parameter_names ?? [];
  return names.length > 0 ? text.schedule.stored(names) : text.schedule.noneStored;
}

/** Fields of the issue that each run opens, for connections that ask for them. */
function IssueFields({ draft: { issueFields }, set, saved }: FieldsProps) {
  const stored = saved?.tracker_field_names ?? [];
  return (
    <details>
      <summary>{text.run.issueFields}</summary>
      {stored.length > 0 && (
        <p className="secondary">
          <MarkedText text={text.schedule.storedFields(stored)} />
        </p>
      )}
      {saved && (
        <Toggle
          label={text.schedule.replaceFields}
          isOn={issueFields !== null}
          onChange={(isOn) => set({ issueFields: isOn ? [] : null })}
        />
      )}
      {(saved === null || issueFields !== null) && (
        <Pairs
          label={text.run.issueFields}
          nameLabel={text.run.issueField}
          valueLabel={text.run.issueValue}
          value={issueFields ?? []}
          onChange={(issueFields) => set({ issueFields })}
        />
      )}
    </details>
  );
}
