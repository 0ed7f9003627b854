import { formatNumber } from "../engines/numbers";
import type { Plan, PlanStep } from "../engines/plan";
import { language } from "../messages";
import { common } from "../messages/common";
import { MarkedText } from "./marked-text";
import styles from "./plan-view.module.css";

/** The plan of a query: its steps as a tree beside its text, or the text alone. */
export function PlanView({ plan: { text, steps, hasTimes } }: { plan: Plan }) {
  return (
    <div className={steps ? styles.plan : undefined}>
      {steps && (
        <section aria-label={common.plan.steps}>
          <Steps steps={steps} hasTimes={hasTimes} />
        </section>
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a part that scrolls must be reached by the keyboard */}
      <section aria-label={common.plan.text} className={styles.text} tabIndex={0}>
        <pre>
          <MarkedText text={text} />
        </pre>
      </section>
    </div>
  );
}

function Steps({ steps, hasTimes }: { steps: PlanStep[]; hasTimes: boolean }) {
  return (
    <ul className={styles.steps}>
      {steps.map((step, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: steps have no identity but their place
        <li key={index}>
          <Step step={step} hasTimes={hasTimes} />
          {step.children.length > 0 && <Steps steps={step.children} hasTimes={hasTimes} />}
        </li>
      ))}
    </ul>
  );
}

function Step({ step, hasTimes }: { step: PlanStep; hasTimes: boolean }) {
  const { kind, relation, share } = step;
  const percent = share === null ? null : Math.round(share * 100);
  return (
    <div className={styles.step}>
      <p>
        <strong>
          <MarkedText text={kind} />
        </strong>{" "}
        {relation !== null && <MarkedText text={relation} />}
      </p>
      <p className="secondary">{figuresOf(step).join(" · ")}</p>
      {percent !== null && (
        <p className={styles.share}>
          <span className={styles.bar} aria-hidden="true">
            <span style={{ width: `${percent}%` }} />
          </span>
          {hasTimes ? common.plan.shareOfTime(percent) : common.plan.shareOfCost(percent)}
        </p>
      )}
    </div>
  );
}

function figuresOf({ expected, actual, cost, time }: PlanStep): string[] {
  const { plan } = common;
  const figures: [number | null, (value: string) => string][] = [
    [actual, plan.actual],
    [expected, plan.expected],
    [time, plan.time],
    [cost, plan.cost],
  ];
  return figures.flatMap(([value, words]) => (value === null ? [] : [words(formatNumber(value, language))]));
}
