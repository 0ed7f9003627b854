import { counted } from "../../messages";
import { Choice, Toggle } from "../../parts/choice";
import { Field, LongField } from "../../parts/field";
import { Fields } from "../../parts/form";
import { Names, Pairs } from "../../parts/names";
import styles from "./integrations.module.css";
import { CHATS, EVENTS, type EventKind, NEEDS, SINK_KINDS } from "./kinds";
import { text } from "./messages";
import type { Sink, SinkDraft } from "./sink-draft";

interface Props {
  draft: SinkDraft;
  set: (part: Partial<SinkDraft>) => void;
  /** What is saved; null for a new one. */
  saved: Sink | null;
}

/** The settings of a sink; which there are depends on its kind. */
export function SinkFields({ draft, set, saved }: Props) {
  return (
    <>
      <Field label={text.sinks.name} value={draft.name} onChange={(name) => set({ name })} isRequired />
      {saved === null && (
        <Choice
          label={text.sinks.kind}
          hint={text.sink.kindHint}
          value={draft.kind}
          options={SINK_KINDS.map((kind) => [kind, text.kinds[kind]] as const)}
          onChange={(kind) => set({ kind, options: {}, keys: {} })}
        />
      )}
      <Receiver draft={draft} set={set} saved={saved} />
      <Fields title={text.sink.events}>
        <Events events={draft.events} onChange={(events) => set({ events })} />
        {CHATS.includes(draft.kind) && <p className="secondary">{text.sink.eventsHint}</p>}
        <Toggle
          label={text.sink.withScript}
          hint={text.sink.withScriptHint}
          isOn={draft.withScript}
          onChange={(withScript) => set({ withScript })}
        />
        <Toggle
          label={text.sink.paused}
          hint={text.sink.pausedHint}
          isOn={draft.paused}
          onChange={(paused) => set({ paused })}
        />
      </Fields>
      {CHATS.includes(draft.kind) && <Scope draft={draft} set={set} />}
    </>
  );
}

function Receiver({ draft, set, saved }: Props) {
  const { kind } = draft;
  const hasHeaders = kind === "webhook" || kind === "otlp";
  return (
    <>
      {(NEEDS[kind].address || kind === "slack") && (
        <Field
          label={text.sinks.address}
          hint={text.sink.addressHint[kind]}
          value={draft.address}
          onChange={(address) => set({ address })}
          isRequired={NEEDS[kind].address}
        />
      )}
      {NEEDS[kind].options.map((name) => (
        <Field
          key={name}
          label={text.sink.options[name] ?? name}
          value={draft.options[name] ?? ""}
          onChange={(value) => set({ options: { ...draft.options, [name]: value } })}
          isRequired
        />
      ))}
      {NEEDS[kind].keys.map((name) => (
        <Field
          key={name}
          type="password"
          autoComplete="off"
          label={text.sink.keys[name] ?? name}
          hint={saved?.key_names.includes(name) ? text.sink.keyStored : undefined}
          value={draft.keys[name] ?? ""}
          onChange={(value) => set({ keys: { ...draft.keys, [name]: value } })}
        />
      ))}
      {hasHeaders && (
        <>
          <Pairs
            label={text.sink.headers}
            nameLabel={text.sink.headerName}
            valueLabel={text.sink.headerValue}
            value={draft.headers}
            onChange={(headers) => set({ headers })}
          />
          <p className="secondary">
            {saved?.header_names.length
              ? text.sink.headersStored(saved.header_names.join(", "))
              : text.sink.headersHint}
          </p>
        </>
      )}
      <LongField
        label={text.sink.authority}
        hint={text.sink.authorityHint}
        rows={2}
        isCode
        value={draft.authority}
        onChange={(authority) => set({ authority })}
      />
    </>
  );
}

function Events({ events, onChange }: { events: EventKind[]; onChange: (events: EventKind[]) => void }) {
  return (
    <div className={styles.events}>
      {EVENTS.map((event) => (
        <Toggle
          key={event}
          label={event}
          isOn={events.includes(event)}
          onChange={(isOn) => onChange(isOn ? [...events, event] : events.filter((other) => other !== event))}
        />
      ))}
      <p role="status" className="secondary">
        {counted(text.sinks.eventCount, events.length)}
      </p>
    </div>
  );
}

function Scope({ draft, set }: Omit<Props, "saved">) {
  return (
    <Fields title={text.sink.scope}>
      <Names
        label={text.sink.scopeConnections}
        value={draft.connections}
        onChange={(connections) => set({ connections })}
      />
      <Names label={text.sink.scopeGroups} value={draft.groups} onChange={(groups) => set({ groups })} />
      <Pairs
        label={text.sink.scopeTags}
        nameLabel={text.sink.tagName}
        valueLabel={text.sink.tagValue}
        value={draft.tags}
        onChange={(tags) => set({ tags })}
      />
    </Fields>
  );
}
