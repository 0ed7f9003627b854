import { isSshAddress } from "../../engines/runbooks";
import { Toggle } from "../../parts/choice";
import { Field, LongField, NumberField } from "../../parts/field";
import type { Repository, RepositoryDraft, SecretName } from "./data";
import { text } from "./messages";

interface Props {
  draft: RepositoryDraft;
  set: (part: Partial<RepositoryDraft>) => void;
  saved: Repository | null;
}

/** Where a repository is and how it is read: by a password, or by a key if its address is one of SSH. */
export function RepositoryFields({ draft, set, saved }: Props) {
  const isSsh = isSshAddress(draft.url.trim());
  return (
    <>
      <Field
        label={text.repository.url}
        hint={saved ? text.repository.urlFixed : text.repository.urlHint}
        value={draft.url}
        onChange={(url) => set({ url })}
        isReadOnly={saved !== null}
        isRequired
      />
      <Field
        label={text.repository.branch}
        hint={text.repository.branchHint}
        value={draft.branch}
        onChange={(branch) => set({ branch })}
      />
      {isSsh ? (
        <SshFields draft={draft} set={set} saved={saved} />
      ) : (
        <HttpFields draft={draft} set={set} saved={saved} />
      )}
      <NumberField
        label={text.repository.hookTtl}
        hint={text.repository.hookTtlHint}
        value={draft.hookTtl}
        onChange={(hookTtl) => set({ hookTtl })}
      />
    </>
  );
}

function HttpFields(props: Props) {
  const { draft, set } = props;
  return (
    <>
      <Field label={text.repository.user} value={draft.user} onChange={(user) => set({ user })} autoComplete="off" />
      <SecretField {...props} name="git_password" label={text.repository.password} />
    </>
  );
}

function SshFields(props: Props) {
  const { draft, set } = props;
  return (
    <>
      <Field
        label={text.repository.sshUser}
        hint={text.repository.sshUserHint}
        value={draft.sshUser}
        onChange={(sshUser) => set({ sshUser })}
        autoComplete="off"
      />
      <SecretField {...props} name="ssh_key" label={text.repository.key} />
      <SecretField {...props} name="ssh_keypass" label={text.repository.passphrase} />
      <LongField
        label={text.repository.knownHosts}
        hint={text.repository.knownHostsHint}
        value={draft.knownHosts}
        onChange={(knownHosts) => set({ knownHosts })}
        rows={2}
        isCode
      />
    </>
  );
}

/** A secret that is written and never shown. What is stored stays, is replaced, or is deleted. */
function SecretField({ draft, set, saved, name, label }: Props & { name: SecretName; label: string }) {
  const isStored = saved?.secrets_set.includes(name) ?? false;
  const isForgotten = draft.forgotten.includes(name);
  const shared = {
    label,
    hint: isStored ? text.repository.stored : undefined,
    value: draft.secrets[name],
    onChange: (value: string) => set({ secrets: { ...draft.secrets, [name]: value } }),
    isDisabled: isForgotten,
  };
  const forget = (isOn: boolean) =>
    set({
      forgotten: isOn ? [...draft.forgotten, name] : draft.forgotten.filter((other) => other !== name),
      ...(isOn && { secrets: { ...draft.secrets, [name]: "" } }),
    });
  return (
    <>
      {name === "ssh_key" ? (
        <LongField {...shared} rows={3} isCode />
      ) : (
        <Field {...shared} type="password" autoComplete="new-password" />
      )}
      {isStored && (
        <Toggle
          label={text.repository.forget(text.repositories.secrets[name] ?? name)}
          isOn={isForgotten}
          onChange={forget}
        />
      )}
    </>
  );
}
