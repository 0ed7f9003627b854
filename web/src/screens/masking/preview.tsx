import { keepPreviousData, useQueries } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { type Samples, STRATEGIES, type Strategy, samplesOf } from "../../engines/masking-draft";
import { common } from "../../messages/common";
import { Chip } from "../../parts/chip";
import { Facts } from "../../parts/facts";
import { LongField } from "../../parts/field";
import { MarkedText } from "../../parts/marked-text";
import { Pairs } from "../../parts/names";
import { Failure } from "../../parts/notice";
import { useSettled } from "../../parts/use-settled";
import styles from "./masking.module.css";
import { type Draft, ruleOf } from "./masking-data";
import { text } from "./messages";

type Masked = components["schemas"]["MaskingTestAnswer"];

const PAUSE = 400; // milliseconds without a key after which the samples are masked

/** Samples before and after, by the rule in the form, with each of the strategies. */
export function Preview({ draft }: { draft: Draft }) {
  const [lines, setLines] = useState(text.preview.sample);
  const [cells, setCells] = useState<[string, string][]>([[text.preview.sampleColumn, text.preview.sampleValue]]);
  const { rule, samples } = useSettled({ rule: ruleOf(draft), samples: samplesOf(lines, cells) }, PAUSE);
  const { columns, supported_entity_types: groups, custom_entity_types: customTypes } = rule;
  const hasContent = [columns, customTypes, groups?.flatMap((group) => group.entity_types)].some(
    (part) => part?.length,
  );
  const trials = useQueries({
    queries: STRATEGIES.map((strategy) => ({
      queryKey: ["masking trial", strategy, { ...rule, strategy }, samples],
      enabled: hasContent && samples.texts.length + samples.rows.length > 0,
      placeholderData: keepPreviousData<Masked>,
      gcTime: 0,
      retry: false,
      queryFn: () => {
        const body = { rule: { ...rule, strategy }, ...samples };
        return unwrap(api.POST("/api/datamasking-rules/test", { body }));
      },
    })),
  });
  const chosen = trials[STRATEGIES.indexOf(draft.strategy)];
  return (
    <section aria-label={text.preview.title} className="stack">
      <h2>{text.preview.title}</h2>
      <p className="secondary">{text.preview.about}</p>
      <LongField label={text.preview.texts} value={lines} onChange={setLines} rows={3} isCode />
      <Pairs
        label={text.preview.cells}
        nameLabel={text.preview.column}
        valueLabel={text.preview.value}
        value={cells}
        onChange={setCells}
      />
      {!hasContent && <p className="secondary">{text.preview.empty}</p>}
      {chosen?.error ? (
        <Failure error={chosen.error} />
      ) : (
        hasContent && (
          <>
            {samplesWithPlaces(samples).map((sample) => (
              <Comparison
                key={sample.place}
                sample={sample}
                chosen={draft.strategy}
                answers={trials.map(({ data }) => data)}
              />
            ))}
            {chosen?.data && <Counts masked={chosen.data} />}
          </>
        )
      )}
    </section>
  );
}

interface Sample {
  /** Where it is, in words. */
  place: string;
  before: string | null;
  after: (masked: Masked) => string | null | undefined;
}

function samplesWithPlaces({ texts, columns, rows }: Samples): Sample[] {
  return [
    ...texts.map((before, index) => ({
      place: text.preview.text(index + 1),
      before,
      after: (masked: Masked) => masked.texts[index],
    })),
    ...columns.map((column, index) => ({
      place: text.preview.cell(index + 1, column),
      before: rows[0]?.[index] ?? null,
      after: (masked: Masked) => masked.rows[0]?.[index],
    })),
  ];
}

interface ComparisonProps {
  sample: Sample;
  chosen: Strategy;
  answers: (Masked | undefined)[];
}

/** One sample as it is, and as each strategy would show it. */
function Comparison({ sample, chosen, answers }: ComparisonProps) {
  const after = STRATEGIES.map((strategy, index): [string, ReactNode] => {
    const masked = answers[index];
    const value = masked && sample.after(masked);
    return [
      strategy === chosen ? text.preview.chosen(text.strategies[strategy]) : text.strategies[strategy],
      <Cell key={strategy} value={value} isMasked={value !== undefined && value !== sample.before} />,
    ];
  });
  return (
    <section aria-label={sample.place} className="stack">
      <h3 className={styles.sample}>
        <MarkedText text={sample.place} />
      </h3>
      <Facts facts={[[text.preview.before, <Cell key="before" value={sample.before} isMasked={false} />], ...after]} />
    </section>
  );
}

function Cell({ value, isMasked }: { value: string | null | undefined; isMasked: boolean }) {
  if (value === undefined) return "…";
  const shown = value === null ? <i>{common.noValue}</i> : <MarkedText text={value} />;
  return <span className={isMasked ? "mono masked" : "mono"}>{shown}</span>;
}

function Counts({ masked }: { masked: Masked }) {
  const counts = Object.entries(masked.info_types);
  if (counts.length === 0) return <p role="status">{text.preview.nothing}</p>;
  return (
    <div role="status" className="row">
      {text.preview.counts}
      {counts.map(([name, count]) => (
        <Chip key={name} kind="masked">
          <MarkedText text={text.preview.count(name, count)} />
        </Chip>
      ))}
    </div>
  );
}
