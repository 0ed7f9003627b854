import type { FormEvent, ReactNode } from "react";
import { common } from "../messages/common";
import { Button } from "./button";
import styles from "./form.module.css";
import { Failure, Notice } from "./notice";

interface Props {
  submit: string;
  onSubmit: () => void;
  isBusy: boolean;
  error: Error | null;
  isSaved?: boolean;
  children: ReactNode;
  /** Further buttons beside that which submits. */
  more?: ReactNode;
  /** Shows the fields without letting anybody change or send them. */
  isReadOnly?: boolean;
}

/** A form: fields below each other, what went wrong, and the button that sends it. Enter in a field sends it, too. */
export function Form({ submit, onSubmit, isBusy, error, isSaved, children, more, isReadOnly }: Props) {
  const send = (event: FormEvent) => {
    event.preventDefault();
    if (!isBusy) onSubmit();
  };
  if (isReadOnly)
    return (
      <fieldset disabled className={`${styles.form} ${styles.readOnly}`}>
        {children}
      </fieldset>
    );
  return (
    <form className={styles.form} onSubmit={send}>
      {children}
      {error && <Failure error={error} />}
      {isSaved && !error && (
        <Notice kind="ok">
          <p>{common.saved}</p>
        </Notice>
      )}
      <div className="row">
        <Button kind="primary" type="submit" isDisabled={isBusy}>
          {submit}
        </Button>
        {more}
      </div>
    </form>
  );
}

/** Fields that belong together, under a heading of their own. */
export function Fields({ title, children }: { title: string; children: ReactNode }) {
  return (
    <fieldset className={styles.fields}>
      <legend>{title}</legend>
      {children}
    </fieldset>
  );
}
