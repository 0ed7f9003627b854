// Rules of guardrails as a form edits them: every field is there, and what its type does not use is not sent.

export const TYPES = {
  input: ["deny_statements", "require_where", "read_only", "deny_full_scans", "pattern_match", "deny_words_list"],
  output: ["pattern_match", "deny_words_list", "max_rows"],
} as const;
export type Side = keyof typeof TYPES;
export type RuleType = (typeof TYPES)[Side][number];

export const EFFECTS = ["read", "write", "ddl", "grant", "session", "admin", "unknown"] as const;
export type Effect = (typeof EFFECTS)[number];
export type Action = "deny" | "review" | "mask" | "warn";
export type Unknown = "deny" | "review" | "warn" | "allow";

export interface Rule {
  /** It stays the same while the rule is edited and moved. */
  key: number;
  type: RuleType;
  name: string;
  action: Action;
  message: string;
  words: string[];
  pattern_regex: string;
  whole_words: boolean;
  case_sensitive: boolean;
  effects: Effect[];
  objects: string[];
  unknown: Unknown | null;
  allow_functions: string[];
  most: number | null;
}

/** A rule as the gateway answers: what is as usual is left out. */
export interface SavedRule extends Partial<Omit<Rule, "key" | "name" | "type" | "effects">> {
  type: RuleType;
  name: string | null;
  effects?: readonly Effect[];
}

type Field = "words" | "pattern_regex" | "effects" | "objects" | "unknown" | "most";

const USES: Record<RuleType, readonly Field[]> = {
  deny_words_list: ["words"],
  pattern_match: ["pattern_regex"],
  deny_statements: ["effects", "objects", "unknown"],
  require_where: ["unknown"],
  read_only: ["unknown"],
  deny_full_scans: ["objects", "unknown"],
  max_rows: ["most"],
};

let lastKey = 0;

/** Whether rules of this type have the field. Functions that count as harmless go with `unknown`. */
export function uses(type: RuleType, field: Field): boolean {
  return USES[type].includes(field);
}

/** Return the actions that a rule can have. Masking is for texts of output; output cannot wait; rows cannot pass. */
export function actionsOf(side: Side, type: RuleType): readonly Action[] {
  if (type === "max_rows") return ["deny"];
  return side === "input" ? ["deny", "review", "warn"] : ["deny", "mask", "warn"];
}

export function blankRule(type: RuleType): Rule {
  return ruleOf({ type, name: null });
}

/** Return a saved rule with all fields. */
export function ruleOf(saved: SavedRule): Rule {
  lastKey += 1;
  return {
    key: lastKey,
    type: saved.type,
    name: saved.name ?? "",
    action: saved.action ?? "deny",
    message: saved.message ?? "",
    words: [...(saved.words ?? [])],
    pattern_regex: saved.pattern_regex ?? "",
    whole_words: saved.whole_words ?? true,
    case_sensitive: saved.case_sensitive ?? false,
    effects: [...(saved.effects ?? [])],
    objects: [...(saved.objects ?? [])],
    unknown: saved.unknown ?? null,
    allow_functions: [...(saved.allow_functions ?? [])],
    most: saved.most || null,
  };
}

/** Return a rule with another type, and an action that this type can have. */
export function withType(rule: Rule, side: Side, type: RuleType): Rule {
  const action = actionsOf(side, type).includes(rule.action) ? rule.action : "deny";
  return { ...rule, type, action };
}

/** Return what to send: a field that the type does not use would be refused. */
export function bodyOf(rule: Rule) {
  const { type } = rule;
  const asks = uses(type, "unknown");
  return {
    type,
    name: rule.name.trim() || null,
    action: rule.action,
    message: rule.message.trim() || null,
    words: uses(type, "words") ? rule.words : null,
    pattern_regex: uses(type, "pattern_regex") ? rule.pattern_regex : null,
    whole_words: uses(type, "words") ? rule.whole_words : true,
    case_sensitive: uses(type, "words") ? rule.case_sensitive : false,
    effects: uses(type, "effects") ? rule.effects : null,
    objects: uses(type, "objects") ? rule.objects : null,
    unknown: asks ? rule.unknown : null,
    allow_functions: asks ? rule.allow_functions : null,
    most: uses(type, "most") ? rule.most : null,
  };
}

/** Return the parts of a text between these positions, which count characters and not UTF-16 units. */
export function cut(text: string, spans: readonly (readonly number[])[]): string[] {
  const characters = [...text];
  return spans.map(([start, end]) => characters.slice(start, end).join(""));
}
