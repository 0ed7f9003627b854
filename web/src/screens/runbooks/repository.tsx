import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useUser } from "../../api/account";
import { Facts } from "../../parts/facts";
import { Failure } from "../../parts/notice";
import { Page } from "../../parts/page";
import { ResourceEditor } from "../../parts/resource-editor";
import { Section } from "../../parts/section";
import { Time } from "../../parts/time";
import { CommitForm } from "./commit-form";
import { BLANK_REPOSITORY, type Repository, repositories, repositoryBody, repositoryDraft } from "./data";
import { text } from "./messages";
import { Refresh, RepositoryState } from "./repositories";
import { RepositoryFields } from "./repository-fields";

export function NewRepositoryScreen() {
  return (
    <Page title={text.repository.newTitle} aside={<Link to="/runbooks/repositories">{text.repository.all}</Link>}>
      <Editor id={undefined} title="" isReadOnly={!useUser().is_admin} />
    </Page>
  );
}

/** A repository: whether it can be read, how it is reached, and a form that commits a runbook to it. */
export function RepositoryScreen() {
  const { id } = useParams({ from: "/shell/runbooks/repositories/$id" });
  const { is_admin } = useUser();
  const query = useQuery({
    queryKey: [repositories.path, "status", id],
    queryFn: async () => (await repositories.read(id)).item,
  });
  const repository = query.data;
  return (
    <Page
      title={repository?.repository ?? text.repositories.repository}
      aside={<Link to="/runbooks/repositories">{text.repository.all}</Link>}
    >
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {repository && (
        <>
          <Facts facts={factsOf(repository)} />
          <div className="row">
            {is_admin && <Refresh id={id} />}
            <Link to="/runbooks">{text.run.all}</Link>
          </div>
          <Section title={text.repository.settings}>
            <Editor key={id} id={id} title={repository.repository} isReadOnly={!is_admin} />
          </Section>
          {is_admin && <CommitForm repository={repository} />}
        </>
      )}
    </Page>
  );
}

function factsOf(repository: Repository): [string, ReactNode][] {
  const { commit, fetched_at, tried_at } = repository;
  return [
    [text.repositories.state, <RepositoryState key="state" repository={repository} />],
    [text.repositories.commit, commit ? <code key="commit">{commit}</code> : text.repository.never],
    [text.repository.readAt, fetched_at ? <Time key="read" at={fetched_at} /> : text.repository.never],
    [text.repository.triedAt, tried_at ? <Time key="tried" at={tried_at} /> : text.repository.never],
  ];
}

function Editor({ id, title, isReadOnly }: { id: string | undefined; title: string; isReadOnly: boolean }) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const moved = (next: string | null) => {
    void queries.invalidateQueries({ queryKey: ["runbooks"] });
    void (next === null
      ? navigate({ to: "/runbooks/repositories" })
      : navigate({ to: "/runbooks/repositories/$id", params: { id: next } }));
  };
  return (
    <ResourceEditor
      resource={repositories}
      name={id}
      blank={BLANK_REPOSITORY}
      draftOf={repositoryDraft}
      bodyOf={repositoryBody}
      nameOf={(saved) => saved.id}
      onMoved={moved}
      isReadOnly={isReadOnly}
      verbs={text.repository.verbs}
      deletion={{
        label: text.repository.delete,
        title: text.repository.deleteTitle(title),
        text: text.repository.deleteText,
      }}
    >
      {(draft, set, saved) => <RepositoryFields draft={draft} set={set} saved={saved} />}
    </ResourceEditor>
  );
}
