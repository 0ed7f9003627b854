import { useMutation, useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { Button } from "../../parts/button";
import { Facts } from "../../parts/facts";
import { Field } from "../../parts/field";
import { Form } from "../../parts/form";
import { Failure, Notice } from "../../parts/notice";
import { Page } from "../../parts/page";
import { Skeleton } from "../../parts/table";
import styles from "./codes.module.css";
import { text } from "./messages";

export type Answer = "allow" | "deny";

interface Props<Waiting> {
  title: string;
  codeLabel: string;
  /** The code in the address; empty to ask for one. */
  code: string;
  onCode: (code: string) => void;
  look: (code: string) => Promise<Waiting>;
  decide: (waiting: Waiting, answer: Answer) => Promise<unknown>;
  asks: string;
  factsOf: (waiting: Waiting) => [string, ReactNode][];
  warning: string;
  allow: string;
  outcomes: { allow: string; deny: string };
  /** Further fields of the decision. */
  children?: ReactNode;
}

/** A program that waits behind a code for its user, who lets it in or rejects it. */
export function CodePage<Waiting>(props: Props<Waiting>) {
  const { title, codeLabel, code, onCode } = props;
  const [typed, setTyped] = useState("");
  return (
    <Page title={title}>
      {code ? (
        <Decision key={code} {...props} />
      ) : (
        <Form submit={text.device.look} onSubmit={() => onCode(typed.trim())} isBusy={false} error={null}>
          <Field
            label={codeLabel}
            value={typed}
            onChange={setTyped}
            autoComplete="off"
            maxLength={16}
            isRequired
            autoFocus
          />
        </Form>
      )}
    </Page>
  );
}

function Decision<Waiting>(props: Props<Waiting>) {
  const { title, code, onCode, look, decide, asks, factsOf, warning, allow, outcomes, children } = props;
  const waiting = useQuery({
    queryKey: [title, code],
    queryFn: () => look(code),
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY, // a code can be looked up a few times only
    refetchOnWindowFocus: false,
  });
  const decision = useMutation({ mutationFn: (answer: Answer) => decide(waiting.data as Waiting, answer) });
  const another = <Button onPress={() => onCode("")}>{text.device.other}</Button>;
  if (decision.isSuccess)
    return (
      <Notice kind={decision.variables === "allow" ? "ok" : "info"}>
        <p>{outcomes[decision.variables]}</p>
      </Notice>
    );
  if (waiting.error)
    return (
      <>
        <Failure error={waiting.error} />
        <div>{another}</div>
      </>
    );
  if (waiting.isPending) return <Skeleton rows={4} />;
  return (
    <div className={styles.decision}>
      <p>{asks}</p>
      <Facts facts={factsOf(waiting.data)} />
      <Notice kind="held">
        <p>{warning}</p>
      </Notice>
      <Form
        submit={allow}
        onSubmit={() => decision.mutate("allow")}
        isBusy={decision.isPending}
        error={decision.error}
        more={
          <Button onPress={() => decision.mutate("deny")} isDisabled={decision.isPending}>
            {text.device.deny}
          </Button>
        }
      >
        {children}
      </Form>
    </div>
  );
}
