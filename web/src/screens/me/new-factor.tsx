import { useState } from "react";
import { common } from "../../messages/common";
import { Button } from "../../parts/button";
import { Copy } from "../../parts/copy";
import { Dialog } from "../../parts/dialog";
import { Field } from "../../parts/field";
import { Form } from "../../parts/form";
import { beginFactor, confirmApp, type Enrolment, type NewKind, registerKey } from "./factors-data";
import { text } from "./messages";
import { NO_PROOF, ProofInput, proofOf } from "./proof";
import { QrCode } from "./qr";

const LABELS: Record<NewKind, string> = { totp: text.addApp, webauthn: text.addKey };

interface Props {
  kind: NewKind;
  hasFactors: boolean;
  /** Whether the login is so new that no further proof is needed. */
  isJustLoggedIn?: boolean;
  onAdded: (recoveryCodes: string[]) => void;
}

/** Add a second factor in two steps: who asks, then the factor itself. */
export function NewFactor({ kind, hasFactors, isJustLoggedIn = false, onAdded }: Props) {
  const [isOpen, setOpen] = useState(false);
  const close = () => setOpen(false);
  const added = (codes: string[]) => {
    close();
    onAdded(codes);
  };
  return (
    <>
      <Button onPress={() => setOpen(true)}>{LABELS[kind]}</Button>
      <Dialog title={LABELS[kind]} isOpen={isOpen} onClose={close}>
        <Steps kind={kind} hasFactors={hasFactors} isJustLoggedIn={isJustLoggedIn} onAdded={added} onCancel={close} />
      </Dialog>
    </>
  );
}

function Steps({ kind, hasFactors, isJustLoggedIn, onAdded, onCancel }: Props & { onCancel: () => void }) {
  const [name, setName] = useState("");
  const [proof, setProof] = useState(NO_PROOF);
  const [needsProof, setNeedsProof] = useState(!isJustLoggedIn);
  const [enrolment, setEnrolment] = useState<Enrolment | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  const begin = async () => {
    setBusy(true);
    setError(null);
    try {
      const begun = await beginFactor(kind, name.trim(), needsProof ? proofOf(proof) : {});
      if (kind === "webauthn") onAdded(await registerKey(begun));
      else setEnrolment(begun);
    } catch (failure) {
      setError(failure as Error);
      setNeedsProof(true); // the login may not be that new any more
    } finally {
      setBusy(false);
    }
  };
  if (enrolment) return <AppStep enrolment={enrolment} onAdded={onAdded} onCancel={onCancel} />;
  return (
    <Form
      submit={text.begin}
      onSubmit={() => void begin()}
      isBusy={isBusy}
      error={error}
      more={<Button onPress={onCancel}>{common.cancel}</Button>}
    >
      <Field
        label={text.factorName}
        hint={kind === "totp" ? text.appNameHint : text.keyNameHint}
        value={name}
        onChange={setName}
        isRequired
      />
      {needsProof && <ProofInput proof={proof} onChange={setProof} hasCodes={hasFactors} />}
      {!hasFactors && <p>{text.factorOnce}</p>}
    </Form>
  );
}

interface AppStepProps {
  enrolment: Enrolment;
  onAdded: (codes: string[]) => void;
  onCancel: () => void;
}

function AppStep({ enrolment, onAdded, onCancel }: AppStepProps) {
  const [code, setCode] = useState("");
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  const confirm = async () => {
    setBusy(true);
    setError(null);
    try {
      onAdded(await confirmApp(enrolment.id, code.trim()));
    } catch (failure) {
      setError(failure as Error);
      setBusy(false);
    }
  };
  return (
    <Form
      submit={text.confirmApp}
      onSubmit={() => void confirm()}
      isBusy={isBusy}
      error={error}
      more={<Button onPress={onCancel}>{common.cancel}</Button>}
    >
      <p>{text.scanTitle}</p>
      {enrolment.qr && <QrCode code={enrolment.qr} />}
      <Copy label={text.secret} text={enrolment.secret ?? ""} />
      <Field
        label={text.code}
        value={code}
        onChange={setCode}
        inputMode="numeric"
        autoComplete="one-time-code"
        isRequired
        autoFocus
      />
    </Form>
  );
}
