import { Choice } from "../../parts/choice";
import { Field } from "../../parts/field";
import type { Proof } from "./factors-data";
import { text } from "./messages";

type Kind = keyof typeof text.proofs;

export interface ProofFields {
  kind: Kind;
  words: string;
}
export const NO_PROOF: ProofFields = { kind: "password", words: "" };

export function proofOf({ kind, words }: ProofFields): Proof {
  return kind === "password" ? { current_password: words } : { code: words.trim(), code_kind: kind };
}

interface Props {
  proof: ProofFields;
  onChange: (proof: ProofFields) => void;
  /** Whether the user has an authenticator app or recovery codes, too. */
  hasCodes: boolean;
}

/** The user proves once more that it is them, since a login alone may be somebody else's hands. */
export function ProofInput({ proof, onChange, hasCodes }: Props) {
  const kinds = hasCodes ? (["password", "totp", "recovery"] as const) : (["password"] as const);
  return (
    <>
      {hasCodes && (
        <Choice
          label={text.proof}
          value={proof.kind}
          options={kinds.map((kind) => [kind, text.proofs[kind]] as const)}
          onChange={(kind) => onChange({ kind, words: "" })}
        />
      )}
      {proof.kind === "password" ? (
        <Field
          label={text.currentPassword}
          type="password"
          autoComplete="current-password"
          value={proof.words}
          onChange={(words) => onChange({ ...proof, words })}
          maxLength={1024}
          isRequired
        />
      ) : (
        <Field
          label={text.proofCode}
          autoComplete="one-time-code"
          value={proof.words}
          onChange={(words) => onChange({ ...proof, words })}
          maxLength={64}
          isRequired
        />
      )}
    </>
  );
}
