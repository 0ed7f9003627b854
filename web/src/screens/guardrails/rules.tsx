import {
  actionsOf,
  blankRule,
  EFFECTS,
  type Rule,
  type Side,
  TYPES,
  type Unknown,
  uses,
  withType,
} from "../../engines/guardrail-rules";
import { Button } from "../../parts/button";
import { Choice, Toggle } from "../../parts/choice";
import { Field, LongField, NumberField } from "../../parts/field";
import { Fields } from "../../parts/form";
import { Names } from "../../parts/names";
import { text } from "./messages";
import styles from "./rules.module.css";

interface ListProps {
  side: Side;
  rules: Rule[];
  onChange: (rules: Rule[]) => void;
}

/** The rules of one direction, in their order: among equal actions, the first that matches is named. */
export function RuleList({ side, rules, onChange }: ListProps) {
  const replace = (index: number, rule: Rule) => onChange(rules.map((other, at) => (at === index ? rule : other)));
  const moveUp = (index: number) =>
    onChange(
      rules.flatMap((rule, at) => (at === index ? [] : at === index - 1 ? [rules[index] ?? rule, rule] : [rule])),
    );
  return (
    <Fields title={text.rules.sides[side]}>
      <p className="secondary">{text.rules.about[side]}</p>
      {rules.map((rule, index) => {
        const title = text.rules.rule(index + 1);
        return (
          <section key={rule.key} aria-label={`${text.rules.sides[side]}: ${title}`} className={styles.rule}>
            <div className={styles.head}>
              <h2>{title}</h2>
              <div className="row">
                {index > 0 && (
                  <Button kind="quiet" aria-label={text.rules.upOf(title)} onPress={() => moveUp(index)}>
                    {text.rules.up}
                  </Button>
                )}
                <Button
                  kind="quiet"
                  aria-label={text.rules.remove(title)}
                  onPress={() => onChange(rules.filter((_, at) => at !== index))}
                >
                  {text.rules.removeShort}
                </Button>
              </div>
            </div>
            <RuleFields side={side} rule={rule} onChange={(changed) => replace(index, changed)} />
          </section>
        );
      })}
      <div>
        <Button onPress={() => onChange([...rules, blankRule(TYPES[side][0])])}>{text.rules.add[side]}</Button>
      </div>
    </Fields>
  );
}

interface RuleProps {
  rule: Rule;
  onChange: (rule: Rule) => void;
}

function RuleFields({ side, rule, onChange }: RuleProps & { side: Side }) {
  const set = (part: Partial<Rule>) => onChange({ ...rule, ...part });
  return (
    <>
      <div className={styles.pair}>
        <Choice
          label={text.rules.type}
          hint={text.rules.typeHints[rule.type]}
          value={rule.type}
          options={TYPES[side].map((type) => [type, text.rules.types[type]] as const)}
          onChange={(type) => onChange(withType(rule, side, type))}
        />
        <Choice
          label={text.rules.action}
          value={rule.action}
          options={actionsOf(side, rule.type).map((action) => [action, text.rules.actions[action]] as const)}
          onChange={(action) => set({ action })}
        />
      </div>
      {uses(rule.type, "words") && <WordFields rule={rule} onChange={onChange} />}
      {uses(rule.type, "pattern_regex") && (
        <LongField
          label={text.rules.pattern}
          hint={text.rules.patternHint}
          value={rule.pattern_regex}
          onChange={(pattern_regex) => set({ pattern_regex })}
          rows={2}
          isCode
        />
      )}
      {uses(rule.type, "effects") && <EffectFields rule={rule} onChange={onChange} />}
      {uses(rule.type, "objects") && (
        <Names
          label={text.rules.objects}
          hint={text.rules.objectsHint}
          value={rule.objects}
          onChange={(objects) => set({ objects })}
        />
      )}
      {uses(rule.type, "unknown") && <UnknownFields rule={rule} onChange={onChange} />}
      {uses(rule.type, "most") && (
        <NumberField label={text.rules.most} value={rule.most} onChange={(most) => set({ most })} isRequired />
      )}
      <div className={styles.pair}>
        <Field label={text.rules.name} value={rule.name} onChange={(name) => set({ name })} maxLength={128} />
        <Field
          label={text.rules.message}
          hint={text.rules.messageHint}
          value={rule.message}
          onChange={(message) => set({ message })}
          maxLength={500}
        />
      </div>
    </>
  );
}

function WordFields({ rule, onChange }: RuleProps) {
  return (
    <>
      <Names label={text.rules.words} value={rule.words} onChange={(words) => onChange({ ...rule, words })} />
      <div className={styles.pair}>
        <Toggle
          label={text.rules.wholeWords}
          isOn={rule.whole_words}
          onChange={(whole_words) => onChange({ ...rule, whole_words })}
        />
        <Toggle
          label={text.rules.caseSensitive}
          isOn={rule.case_sensitive}
          onChange={(case_sensitive) => onChange({ ...rule, case_sensitive })}
        />
      </div>
    </>
  );
}

function EffectFields({ rule, onChange }: RuleProps) {
  const turn = (effect: (typeof EFFECTS)[number], isOn: boolean) =>
    onChange({ ...rule, effects: EFFECTS.filter((other) => (other === effect ? isOn : rule.effects.includes(other))) });
  return (
    <fieldset className={styles.effects}>
      <legend>{text.rules.effects}</legend>
      {EFFECTS.map((effect) => (
        <Toggle
          key={effect}
          label={text.rules.effect[effect]}
          isOn={rule.effects.includes(effect)}
          onChange={(isOn) => turn(effect, isOn)}
        />
      ))}
      <p>{text.rules.effectsHint}</p>
    </fieldset>
  );
}

const AS_ACTION = "action";
const UNKNOWNS: readonly Unknown[] = ["deny", "review", "warn", "allow"];

function UnknownFields({ rule, onChange }: RuleProps) {
  return (
    <div className={styles.pair}>
      <Choice
        label={text.rules.unknown}
        value={rule.unknown ?? AS_ACTION}
        options={[
          [AS_ACTION, text.rules.asAction] as const,
          ...UNKNOWNS.map((unknown) => [unknown, text.rules.unknowns[unknown]] as const),
        ]}
        onChange={(unknown) => onChange({ ...rule, unknown: unknown === AS_ACTION ? null : (unknown as Unknown) })}
      />
      <Names
        label={text.rules.functions}
        hint={text.rules.functionsHint}
        value={rule.allow_functions}
        onChange={(allow_functions) => onChange({ ...rule, allow_functions })}
      />
    </div>
  );
}
