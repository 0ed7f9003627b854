import { useMutation, useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { api, unwrap } from "../../api/client";
import { ApiError } from "../../api/errors";
import type { components } from "../../api/schema";
import { useUser } from "../../app/user";
import { wasClicked } from "../../engines/app-clicks";
import { Facts } from "../../parts/facts";
import { Form } from "../../parts/form";
import { MarkedText } from "../../parts/marked-text";
import { Failure, Notice } from "../../parts/notice";
import { Page } from "../../parts/page";
import { StepUp } from "../../parts/step-up";
import { Skeleton } from "../../parts/table";
import styles from "./codes.module.css";
import { text } from "./messages";

type Application = components["schemas"]["ApplicationAnswer"];

/**
 * An application has sent the browser here, to come back with a code. The user is asked before they open it for the
 * first time, unless they have just clicked on its link.
 */
export function OpenAppScreen() {
  const { host = "", challenge = "" } = useSearch({ from: "/shell/open-app" });
  const application = useQuery({
    queryKey: ["application", host],
    queryFn: () => unwrap(api.GET("/api/applogins", { params: { query: { host } } })),
    enabled: host !== "" && challenge !== "",
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  });
  return (
    <Page title={text.app.title}>
      {host === "" || challenge === "" ? (
        <Notice kind="held">
          <p>{text.app.incomplete}</p>
        </Notice>
      ) : application.error ? (
        <Failure error={application.error} onRetry={() => void application.refetch()} />
      ) : application.isPending ? (
        <Skeleton rows={3} />
      ) : (
        <Opening key={challenge} application={application.data} challenge={challenge} />
      )}
    </Page>
  );
}

function Opening({ application, challenge }: { application: Application; challenge: string }) {
  const { host, url, connection_name, was_opened } = application;
  const { email } = useUser();
  const [isProving, setProving] = useState(false);
  const opening = useMutation({
    gcTime: 0, // a code works once
    mutationFn: () => unwrap(api.POST("/api/applogins", { body: { host, challenge } })),
    // The application's own page reads the part behind #, which no server is sent.
    onSuccess: (answer) => window.location.replace(answer.url + window.location.hash),
    onError: (error) => setProving(error instanceof ApiError && error.code === "step-up-required"),
  });
  const [isMeant] = useState(() => was_opened || wasClicked(new URL(url).host));
  const { mutate } = opening;
  const hasBegun = useRef(false);
  useEffect(() => {
    if (!isMeant || hasBegun.current) return;
    hasBegun.current = true;
    mutate();
  }, [mutate, isMeant]);
  if (isMeant && !opening.error) return <p role="status">{text.app.opening(connection_name)}</p>;
  return (
    <div className={styles.decision}>
      <p>{text.app.asks(email)}</p>
      <Facts
        facts={[
          [text.app.connection, <MarkedText key="connection" text={connection_name} />],
          [text.app.address, <MarkedText key="address" text={url} />],
        ]}
      />
      <Form
        submit={text.app.open(connection_name)}
        onSubmit={() => mutate()}
        isBusy={opening.isPending || opening.isSuccess}
        error={isProving ? null : opening.error}
      >
        {null}
      </Form>
      {isProving && (
        <StepUp
          onDone={() => {
            setProving(false);
            mutate();
          }}
          onClose={() => setProving(false)}
        />
      )}
    </div>
  );
}
