import { type ReactNode, useState } from "react";
import { common } from "../messages/common";
import { Button } from "./button";
import { Dialog } from "./dialog";
import { Field } from "./field";
import { Failure } from "./notice";

interface Props {
  /** The button, and the verb with its object in the dialog: "Delete the guardrail". */
  label: string;
  title: string;
  /** What it causes, and whether it can be undone. */
  children: ReactNode;
  /** A text that must be typed first, for what cannot be taken back. */
  typed?: string;
  action: () => Promise<unknown>;
  onDone?: () => void;
  isDisabled?: boolean;
}

/** A button for something that has consequences: a dialog says which, and asks once more. */
export function Confirm({ label, title, children, typed, action, onDone, isDisabled }: Props) {
  const [isOpen, setOpen] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [words, setWords] = useState("");
  const [error, setError] = useState<Error | null>(null);
  const open = () => {
    setWords("");
    setError(null);
    setOpen(true);
  };
  const run = async () => {
    setBusy(true);
    setError(null);
    try {
      await action();
      setOpen(false);
      onDone?.();
    } catch (failure) {
      setError(failure as Error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Button onPress={open} isDisabled={isDisabled ?? false}>
        {label}
      </Button>
      <Dialog title={title} isOpen={isOpen} onClose={() => setOpen(false)}>
        <div>{children}</div>
        {typed !== undefined && <Field label={common.typeToConfirm(typed)} value={words} onChange={setWords} />}
        {error && <Failure error={error} />}
        <div className="row">
          <Button
            kind="danger"
            onPress={() => void run()}
            isDisabled={isBusy || (typed !== undefined && words !== typed)}
          >
            {label}
          </Button>
          <Button onPress={() => setOpen(false)}>{common.cancel}</Button>
        </div>
      </Dialog>
    </>
  );
}
