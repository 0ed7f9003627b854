import type { Counted } from "../../messages";

export const text = {
  title: "Set your password",
  lead: "This link is valid once. Afterwards you log in with your e-mail address and this password.",
  name: "Your name",
  password: "New password",
  rule: "At least 12 characters. A password manager or a few unrelated words work well.",
  missing: {
    one: "1 more character is needed",
    other: (n: number) => `${n} more characters are needed`,
  } satisfies Counted,
  submit: "Set password and log in",
  noToken: "This page needs the link that you were sent: it ends with #token=… Open that link, or ask for a new one.",
};
