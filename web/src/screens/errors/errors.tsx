import { type ErrorComponentProps, Link, useRouterState } from "@tanstack/react-router";
import { Button } from "../../parts/button";
import { MarkedText } from "../../parts/marked-text";
import { Failure, Notice } from "../../parts/notice";
import { Page } from "../../parts/page";
import { text } from "./messages";

export function NotFoundScreen() {
  const path = useRouterState({ select: (state) => state.location.pathname });
  return (
    <main>
      <Page title={text.notFound}>
        <p>
          <MarkedText text={text.notFoundHint(path)} />
        </p>
        <p>
          <Link to="/">{text.goHome}</Link>
        </p>
      </Page>
    </main>
  );
}

/** What is shown in the place of a screen that failed. */
export function ErrorScreen({ error: thrown, reset }: ErrorComponentProps) {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  return (
    <main>
      <Page title={text.title}>
        {isOutdated(error) ? (
          <Notice kind="info">
            <p>{text.updated}</p>
            <Button onPress={() => window.location.reload()}>{text.reload}</Button>
          </Notice>
        ) : (
          <Failure error={error} onRetry={reset} />
        )}
      </Page>
    </main>
  );
}

/** A file of the old version is gone: the gateway was updated while this page was open. */
function isOutdated(error: Error): boolean {
  return error instanceof TypeError && /dynamically imported module|module script/i.test(error.message);
}
