import { useMutation } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, useState } from "react";
import { askSecurityKey, type FactorKind } from "../api/account";
import { common } from "../messages/common";
import { Button } from "./button";
import styles from "./entrance.module.css";
import { Field } from "./field";
import { Failure } from "./notice";

interface Props<Answer> {
  /** Those of the account. Everyone with a factor has recovery codes, which lists of factors leave out. */
  factors: readonly { kind: FactorKind }[];
  /** What a security key is asked, if the account has one. */
  webauthn: unknown;
  /** Send a code, or what the security key answered. */
  send: (kind: FactorKind, proof: string | Record<string, unknown>) => Promise<Answer>;
  onDone: (answer: Answer) => void;
  /** Further buttons. */
  children?: ReactNode;
}

const SWITCH: Record<FactorKind, string> = {
  totp: common.factor.useCode,
  webauthn: common.factor.useKey,
  recovery: common.factor.useRecovery,
};

/** Prove a second factor: a code, a security key, or a recovery code, whichever the account has. */
export function FactorForm<Answer>({ factors, webauthn, send, onDone, children }: Props<Answer>) {
  const kinds = [...new Set<FactorKind>([...factors.map((factor) => factor.kind), "recovery"])];
  const [kind, setKind] = useState<FactorKind>(kinds[0] ?? "totp");
  const attempt = useMutation({
    mutationFn: async (code: string) => send(kind, kind === "webauthn" ? await askSecurityKey(webauthn) : code),
    onSuccess: onDone,
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    attempt.mutate(String(new FormData(event.currentTarget).get("code") ?? "").trim());
  };
  return (
    <form onSubmit={submit} className={styles.form}>
      {attempt.error && <Failure error={attempt.error} />}
      {kind !== "webauthn" && (
        <Field
          key={kind}
          name="code"
          label={kind === "totp" ? common.factor.code : common.factor.recovery}
          autoComplete={kind === "totp" ? "one-time-code" : "off"}
          inputMode={kind === "totp" ? "numeric" : "text"}
          autoFocus
          isRequired
        />
      )}
      <Button type="submit" kind="primary" isDisabled={attempt.isPending}>
        {kind === "webauthn" ? common.factor.useKey : common.factor.submit}
      </Button>
      {kinds
        .filter((other) => other !== kind)
        .map((other) => (
          <Button key={other} kind="quiet" onPress={() => setKind(other)}>
            {SWITCH[other]}
          </Button>
        ))}
      {children}
    </form>
  );
}
