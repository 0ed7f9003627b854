import type { ReactNode } from "react";
import { useUser } from "../../app/user";
import { common } from "../../messages/common";
import { Facts } from "../../parts/facts";
import { LinkButton } from "../../parts/link-button";
import { MarkedText } from "../../parts/marked-text";
import { Page } from "../../parts/page";
import { Section } from "../../parts/section";
import { Time } from "../../parts/time";
import { ChatAccounts } from "./chats";
import { Credentials } from "./credentials";
import { SecondFactors } from "./factors";
import { Logins } from "./logins";
import { text } from "./messages";
import { PasswordSection } from "./password";
import { PreferenceSection } from "./preferences";
import { SshKeys } from "./ssh-keys";

/** The user's own account: what proves that it is them, and where they are logged in. */
export function MeScreen() {
  const user = useUser();
  const isLocal = user.login_method === "local";
  return (
    <Page title={text.title}>
      <Facts
        facts={[
          [text.email, <MarkedText key="email" text={user.email} />],
          [common.name, <MarkedText key="name" text={user.name} />],
          [text.role, text.roles[user.role] ?? user.role],
          [text.groups, user.groups.length ? <MarkedText key="groups" text={user.groups.join(", ")} /> : common.none],
          [text.organisation, <MarkedText key="organisation" text={user.org_name} />],
          ...(user.login_expires_at
            ? ([[text.loginUntil, <Time key="until" at={user.login_expires_at} />]] as [string, ReactNode][])
            : []),
        ]}
      />
      {isLocal ? (
        <>
          <SecondFactors />
          <PasswordSection />
        </>
      ) : (
        <p>{text.provider}</p>
      )}
      <SshKeys />
      <Credentials />
      <Logins />
      <ChatAccounts />
      <PreferenceSection />
      <Section
        title={text.confirmHere}
        actions={
          <>
            <LinkButton to="/ssh-login">{text.confirmSsh}</LinkButton>
            <LinkButton to="/device">{text.confirmDevice}</LinkButton>
          </>
        }
      >
        <p>{text.confirmHint}</p>
      </Section>
    </Page>
  );
}
