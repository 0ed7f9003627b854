import { useMutation, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import { Link, Outlet, useLocation, useNavigate } from "@tanstack/react-router";
import { CircleUser } from "lucide-react";
import { lazy, Suspense, useEffect, useState } from "react";
import { logOut, userQuery } from "../api/account";
import { followChanges } from "../api/changes";
import { usePreferences, usePreferencesAreKnown } from "../api/preferences";
import { useWaitingCount } from "../api/waiting";
import { common } from "../messages/common";
import { Button } from "../parts/button";
import { Failure } from "../parts/notice";
import { applyAppearance } from "./appearance";
import { text } from "./messages";
import { PLACES } from "./places";
import styles from "./shell.module.css";
import { useShortcuts } from "./use-shortcuts";

const MOST_COUNTED = 99;

const CommandPalette = lazy(async () => ({ default: (await import("./commands")).CommandPalette }));
const KeyboardHelp = lazy(async () => ({ default: (await import("./commands")).KeyboardHelp }));

/** The frame of all screens that need a login: navigation, and who is logged in. */
export function Shell() {
  const preferences = usePreferences();
  const [opened, setOpened] = useShortcuts(preferences.hasLetterKeys);
  const queries = useQueryClient();
  useEffect(() => {
    const user = queries.getQueryData(userQuery.queryKey); // what the screen shows is read after it
    return followChanges(queries, user?.changes_position ?? null);
  }, [queries]);
  useAppearance();
  const close = () => setOpened(null);
  return (
    <div className={styles.shell}>
      <a href="#content" className={styles.skip}>
        {text.skip}
      </a>
      <nav className={styles.navigation} aria-label={text.navigation}>
        <Link to="/" className={styles.brand}>
          <img src="/icon.svg" alt="" width="20" height="20" /> {common.product}
        </Link>
        <Button kind="quiet" onPress={() => setOpened("palette")} aria-keyshortcuts="Control+K Meta+K">
          {text.palette} <kbd>Ctrl K</kbd>
        </Button>
        <Menu />
      </nav>
      <main id="content" tabIndex={-1} className={styles.content}>
        <Outlet />
      </main>
      <Suspense>
        {opened === "palette" && <CommandPalette onClose={close} />}
        {opened === "help" && <KeyboardHelp onClose={close} />}
      </Suspense>
    </div>
  );
}

/** All places; on a narrow screen behind a button, so that the page itself begins at the top. */
function Menu() {
  const path = useLocation({ select: ({ pathname }) => pathname });
  const [openedAt, setOpenedAt] = useState("");
  const isOpen = openedAt === path; // it closes where it leads to
  return (
    <>
      <span className={styles.menuButton}>
        <Button
          kind="quiet"
          aria-expanded={isOpen}
          aria-controls="menu"
          onPress={() => setOpenedAt(isOpen ? "" : path)}
        >
          {text.menu}
        </Button>
      </span>
      <div id="menu" className={isOpen ? styles.menu : `${styles.menu} ${styles.closed}`}>
        <Places />
        <Account />
      </div>
    </>
  );
}

/** Show the page as the user chose, once that is known: until then it is as this browser showed it last. */
function useAppearance() {
  const { theme, density } = usePreferences();
  const isKnown = usePreferencesAreKnown();
  useEffect(() => {
    if (isKnown) applyAppearance({ theme, density });
  }, [isKnown, theme, density]);
}

function Places() {
  const { data: user } = useSuspenseQuery(userQuery);
  const waiting = useWaitingCount();
  if (user === null) return null;
  return PLACES.filter((group) => group.isFor(user)).map(({ title, places }) => (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for controls; a section would be a landmark
    <div key={title ?? ""} role="group" aria-label={title} className={styles.group}>
      {title && <h2>{title}</h2>}
      <ul>
        {places.map(({ to, title, Icon }) => (
          <li key={to}>
            <Link to={to} activeOptions={{ exact: to === "/" }} className={styles.place}>
              <Icon size={16} aria-hidden="true" /> {title}
              {to === "/reviews" && waiting > 0 && (
                <span className={styles.count}>
                  {waiting > MOST_COUNTED ? text.more(MOST_COUNTED) : waiting}
                  <span className="visually-hidden"> {text.waiting}</span>
                </span>
              )}
            </Link>
          </li>
        ))}
      </ul>
    </div>
  ));
}

function Account() {
  const { data: user } = useSuspenseQuery(userQuery);
  const queries = useQueryClient();
  const navigate = useNavigate();
  const leave = useMutation({
    mutationFn: logOut,
    onSuccess: async () => {
      queries.clear();
      await navigate({ to: "/login" });
    },
  });
  if (user === null) return null;
  return (
    <div className={styles.account}>
      <Link to="/me" title={text.account(user.email)} className={styles.place}>
        <CircleUser size={16} aria-hidden="true" />
        <span className="visually-hidden">{text.account(user.email)}</span>
        <span aria-hidden="true">{user.email}</span>
      </Link>
      <Button kind="quiet" onPress={() => leave.mutate()} isDisabled={leave.isPending}>
        {text.logOut}
      </Button>
      {leave.error && <Failure error={leave.error} />}
    </div>
  );
}
