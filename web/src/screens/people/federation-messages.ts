import type { Counted } from "../../messages";

export const text = {
  list: {
    title: "Federation rules",
    create: "New federation rule",
    count: { one: "1 federation rule", other: (n: number) => `${n} federation rules` } satisfies Counted,
    none: "There are no federation rules yet. With one, CI jobs and pods log in with tokens of their issuer, so that they need no stored key.",
    issuer: "Issuer",
    account: "Acts as",
    claims: "Required claims",
  },
  editor: {
    newTitle: "New federation rule",
    title: (name: string) => `Federation rule ${name}`,
    all: "All federation rules",
    verbs: { create: "Create federation rule", save: "Save federation rule" },
    issuer: "Issuer",
    issuerHint: "Such as https://token.actions.githubusercontent.com. Its tokens have exactly this `iss`.",
    audience: "Audience",
    audienceHint: "For this gateway alone, such as its address.",
    account: "Service account",
    accountHint: "Programs act as this account, with its groups.",
    claims: "Required claims",
    claim: "Claim",
    value: "Value",
    claimsHint:
      "Each claim must have one of its values: give a claim again for another value. * stands for a part between / and :. At an issuer that everybody uses, name the owner, such as repository = acme/shop.",
    minutes: "A login lasts, in minutes",
    minutesHint: "At most 60; it cannot be extended.",
    allowAdmin: "The account can be an administrator",
    allowReuse: "A token can be used more than once",
    allowReuseHint: "For Kubernetes, where one token serves for an hour.",
    keys: "The issuer's keys are stored with this rule. The command line changes them.",
    delete: "Delete federation rule",
    deleteTitle: (name: string) => `Delete ${name}?`,
    deleteText: "The logins that it allowed end at once, with their sessions.",
  },
};
