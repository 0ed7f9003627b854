// Texts are in a module `messages.ts` in the folder of each screen, and never in a component.

/** A text for each plural form of a language; `other` takes the number. */
export interface Counted extends Partial<Record<Intl.LDMLPluralRule, string | ((count: number) => string)>> {
  other: (count: number) => string;
}

export const language = "en";

const plurals = new Intl.PluralRules(language);

/** Return the form of a counted text for this number. */
export function counted(forms: Counted, count: number): string {
  const form = forms[plurals.select(count)] ?? forms.other;
  return typeof form === "string" ? form : form(count);
}
