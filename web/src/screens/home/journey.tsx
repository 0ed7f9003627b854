import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Circle, CircleCheck } from "lucide-react";
import { type ReactNode, useEffect } from "react";
import { api, unwrap } from "../../api/client";
import { useChangePreferences, usePreferences, usePreferencesAreKnown } from "../../api/preferences";
import { Button } from "../../parts/button";
import styles from "./home.module.css";
import { text } from "./messages";

type Step = keyof typeof text.journey.steps;

const DEMO = "shop-demo"; // the connection that a gateway with the demo has from its start
const TRIED: Step[] = ["query", "masked", "refused", "replay"];
const MADE: Step[] = ["connection", "invite"];

/** What the gateway knows of the first steps. Whether somebody watched a replay, it does not know. */
interface Progress {
  hasDemo: boolean;
  done: Step[];
  /** The newest session of the demo, to replay. */
  session: string | null;
}

/** First steps for the administrator of a fresh gateway, until all are done or they hide them. */
export function Journey({ email }: { email: string }) {
  const { isJourneyDismissed } = usePreferences();
  const isKnown = usePreferencesAreKnown();
  const isShown = isKnown && !isJourneyDismissed;
  const change = useChangePreferences();
  const progress = useProgress(email, isShown);
  const steps = progress?.hasDemo ? [...TRIED, ...MADE] : MADE;
  const isDone = progress !== undefined && steps.every((step) => step === "replay" || progress.done.includes(step));
  const hide = () => change.mutate(() => ({ isJourneyDismissed: true }));
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, so that home asks for none of this again
  useEffect(() => {
    if (isDone) hide();
  }, [isDone]);
  if (!isShown || progress === undefined || isDone) return null;
  return (
    <section className={styles.journey} aria-label={text.journey.title}>
      <header>
        <h2>{text.journey.title}</h2>
        <Button kind="quiet" onPress={hide}>
          {text.journey.dismiss}
        </Button>
      </header>
      {progress.hasDemo && <p className="secondary">{text.journey.hint}</p>}
      <ol>
        {steps.map((step) => (
          <li key={step}>
            <Mark isDone={progress.done.includes(step)} />
            <StepLink step={step} session={progress.session}>
              {text.journey.steps[step]}
            </StepLink>
            {step in text.journey.try && <code>{text.journey.try[step as keyof typeof text.journey.try]}</code>}
          </li>
        ))}
      </ol>
    </section>
  );
}

function Mark({ isDone }: { isDone: boolean }) {
  if (!isDone) return <Circle size={16} aria-hidden="true" className={styles.open} />;
  return (
    <>
      <CircleCheck size={16} aria-hidden="true" className={styles.done} />
      <span className="visually-hidden">{text.journey.done}</span>
    </>
  );
}

function StepLink({ step, session, children }: { step: Step; session: string | null; children: ReactNode }) {
  if (step === "connection") return <Link to="/connections/new">{children}</Link>;
  if (step === "invite") return <Link to="/people">{children}</Link>;
  if (step !== "replay")
    return (
      <Link to="/sql/$connection" params={{ connection: DEMO }}>
        {children}
      </Link>
    );
  return session === null ? (
    <Link to="/sessions">{children}</Link>
  ) : (
    <Link to="/sessions/$id" params={{ id: session }}>
      {children}
    </Link>
  );
}

function useProgress(email: string, enabled: boolean): Progress | undefined {
  // Their first words say which events change them: what is done in another tab is ticked here.
  const connections = useQuery({
    queryKey: ["connections", "journey"],
    enabled,
    queryFn: () => unwrap(api.GET("/api/connections", { params: { query: { limit: 100 } } })),
  });
  const sessions = useQuery({
    queryKey: ["sessions", "journey", email],
    enabled,
    queryFn: async () => {
      const [query, masked, refused] = await Promise.all([
        newestSession(email, { refused: false }),
        newestSession(email, { masked: true }),
        newestSession(email, { refused: true }),
      ]);
      return { query, masked, refused };
    },
  });
  const users = useQuery({
    queryKey: ["/api/users", "journey"],
    enabled,
    queryFn: () => unwrap(api.GET("/api/users", { params: { query: { limit: 1 } } })),
  });
  if (!connections.data || !sessions.data || !users.data) return undefined;
  const hasDemo = connections.data.data.some(({ name }) => name === DEMO);
  const { query, masked, refused } = sessions.data;
  const facts: [Step, boolean][] = [
    ["query", query !== null],
    ["masked", masked !== null],
    ["refused", refused !== null],
    ["connection", connections.data.total > (hasDemo ? 1 : 0)],
    ["invite", users.data.total > 1],
  ];
  const done = facts.filter(([, isDone]) => isDone).map(([step]) => step);
  return { hasDemo, done, session: masked ?? query };
}

async function newestSession(user: string, kind: { refused?: boolean; masked?: boolean }): Promise<string | null> {
  const query = { user, connection: DEMO, limit: 1, count: "none" as const, ...kind };
  return (await unwrap(api.GET("/api/sessions", { params: { query } }))).data[0]?.id ?? null;
}
