import { useMutation, useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { beginStepUp, type FactorKind, stepUp } from "../api/account";
import { common } from "../messages/common";
import { Button } from "./button";
import { Dialog } from "./dialog";
import styles from "./entrance.module.css";
import { FactorForm } from "./factor-form";
import { Field } from "./field";
import { Failure } from "./notice";
import { Skeleton } from "./table";

interface Props {
  onDone: () => void;
  onClose: () => void;
}

/** The user proves once more who they are: by a second factor, or by the password if they have none. */
export function StepUp({ onDone, onClose }: Props) {
  return (
    <Dialog title={common.stepUp.title} isOpen onClose={onClose}>
      <p>{common.stepUp.why}</p>
      <Proof onDone={onDone} />
      <Button onPress={onClose}>{common.cancel}</Button>
    </Dialog>
  );
}

function Proof({ onDone }: { onDone: () => void }) {
  const [dialog] = useState(() => crypto.randomUUID());
  const challenge = useQuery({
    queryKey: ["step-up", dialog],
    queryFn: beginStepUp,
    gcTime: 0, // a challenge works once
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
  if (challenge.error) return <Failure error={challenge.error} />;
  if (!challenge.data) return <Skeleton rows={2} />;
  const { factors, webauthn, ticket } = challenge.data;
  if (factors.length === 0) return <PasswordProof onDone={onDone} />;
  const send = async (kind: FactorKind, proof: string | Record<string, unknown>) => {
    if (typeof proof === "string") return stepUp({ kind, code: proof });
    try {
      await stepUp({ kind, ticket, assertion: proof });
    } catch (error) {
      await challenge.refetch();
      throw error;
    }
  };
  return <FactorForm factors={factors} webauthn={webauthn} send={send} onDone={onDone} />;
}

function PasswordProof({ onDone }: { onDone: () => void }) {
  const attempt = useMutation({
    mutationFn: (password: string) => stepUp({ password }),
    onSuccess: onDone,
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    attempt.mutate(String(new FormData(event.currentTarget).get("password") ?? ""));
  };
  return (
    <form onSubmit={submit} className={styles.form}>
      {attempt.error && <Failure error={attempt.error} />}
      <Field
        name="password"
        type="password"
        label={common.stepUp.password}
        autoComplete="current-password"
        autoFocus
        isRequired
        maxLength={1024}
      />
      <Button type="submit" kind="primary" isDisabled={attempt.isPending}>
        {common.stepUp.submit}
      </Button>
    </form>
  );
}
