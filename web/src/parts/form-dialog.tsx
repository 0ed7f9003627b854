import { type ReactNode, useState } from "react";
import { common } from "../messages/common";
import { Button } from "./button";
import { Dialog } from "./dialog";
import { Form } from "./form";

interface Props {
  /** The button that opens it. */
  label: string;
  title: string;
  submit: string;
  kind?: "primary" | "plain" | "quiet";
  /** Before it opens: empty the fields. */
  onOpen: () => void;
  /** Send the fields. An error is shown in the dialog, which closes otherwise. */
  action: () => Promise<unknown>;
  isDisabled?: boolean;
  children: ReactNode;
}

/** A button that opens a short form. */
export function FormDialog({ label, title, submit, kind = "plain", onOpen, action, isDisabled, children }: Props) {
  const [isOpen, setOpen] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const open = () => {
    onOpen();
    setError(null);
    setOpen(true);
  };
  const send = async () => {
    setBusy(true);
    setError(null);
    try {
      await action();
      setOpen(false);
    } catch (failure) {
      setError(failure as Error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Button kind={kind} onPress={open} isDisabled={isDisabled ?? false}>
        {label}
      </Button>
      <Dialog title={title} isOpen={isOpen} onClose={() => setOpen(false)}>
        <Form
          submit={submit}
          onSubmit={() => void send()}
          isBusy={isBusy}
          error={error}
          more={<Button onPress={() => setOpen(false)}>{common.cancel}</Button>}
        >
          {children}
        </Form>
      </Dialog>
    </>
  );
}
