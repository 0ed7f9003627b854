import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useUser } from "../../api/account";
import { api, unwrap } from "../../api/client";
import { usePages } from "../../api/pages";
import { duration } from "../../engines/times";
import { counted, language } from "../../messages";
import { common } from "../../messages/common";
import { Button } from "../../parts/button";
import { Chip } from "../../parts/chip";
import { Copy } from "../../parts/copy";
import { LinkButton } from "../../parts/link-button";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { type Repository, repositories } from "./data";
import { text } from "./messages";
import { RunbooksPage } from "./runbooks-page";

/** Where runbooks come from, whether each repository can be read, and why not. */
export function RepositoriesScreen() {
  const { is_admin } = useUser();
  const pages = usePages([repositories.path, "list"], (place) => repositories.list(place));
  return (
    <RunbooksPage path="/runbooks/repositories" title={text.repositories.title} aside={is_admin && <NewButton />}>
      <p className="secondary">{text.repositories.about}</p>
      <List
        label={text.repositories.title}
        pages={pages}
        columns={is_admin ? [...COLUMNS, REFRESH] : COLUMNS}
        keyOf={({ id }) => id}
        count={(total) => counted(text.repositories.count, total)}
        none={
          <div className="stack">
            <p>{text.repositories.none}</p>
            {is_admin && (
              <>
                <div>
                  <NewButton />
                </div>
                <Copy label={common.commandLine} text={text.list.addCommand} />
              </>
            )}
          </div>
        }
      />
    </RunbooksPage>
  );
}

const COLUMNS: Column<Repository>[] = [
  {
    title: text.repositories.repository,
    cell: ({ id, repository }) => (
      <Link to="/runbooks/repositories/$id" params={{ id }} className="mono">
        <MarkedText text={repository} />
      </Link>
    ),
  },
  { title: text.repositories.access, cell: ({ secrets_set }) => accessWords(secrets_set) },
  { title: text.repositories.hooks, cell: ({ git_hook_ttl }) => hookWords(git_hook_ttl) },
  { title: text.repositories.read, cell: ({ fetched_at }) => fetched_at && <Time at={fetched_at} /> },
  { title: text.repositories.state, cell: (repository) => <RepositoryState repository={repository} /> },
];

const REFRESH: Column<Repository> = {
  title: text.repositories.refresh,
  cell: ({ id }) => <Refresh id={id} />,
};

function accessWords(secrets: string[]): string {
  if (secrets.length === 0) return text.repositories.anonymous;
  return secrets.map((name) => text.repositories.secrets[name] ?? name).join(", ");
}

function hookWords(seconds: number): string {
  return seconds > 0 ? text.repositories.hooksFor(duration(seconds, language)) : common.none;
}

/** Whether it was read; a repository that cannot be read now shows what was read before. */
export function RepositoryState({ repository: { error, fetched_at } }: { repository: Repository }) {
  if (error)
    return (
      <span className="row">
        <Chip kind="refused">{text.repositories.failed}</Chip>
        <MarkedText text={error} />
      </span>
    );
  return fetched_at ? (
    <Chip kind="ok">{text.repositories.ok}</Chip>
  ) : (
    <Chip kind="off">{text.repositories.notYet}</Chip>
  );
}

/** Read a repository now; its state says what came of it. */
export function Refresh({ id }: { id: string }) {
  const queries = useQueryClient();
  const refresh = useMutation({
    mutationFn: () =>
      unwrap(api.POST("/api/runbooks/configurations/{nameOrID}/refresh", { params: { path: { nameOrID: id } } })),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: [repositories.path, "list"] });
      void queries.invalidateQueries({ queryKey: [repositories.path, "status"] });
      void queries.invalidateQueries({ queryKey: ["runbooks"] });
    },
  });
  return (
    <>
      <Button onPress={() => refresh.mutate()} isDisabled={refresh.isPending}>
        {text.repositories.refresh}
      </Button>
      {refresh.error && <Failure error={refresh.error} />}
    </>
  );
}

function NewButton() {
  return (
    <LinkButton kind="primary" to="/runbooks/repositories/new">
      {text.repositories.create}
    </LinkButton>
  );
}
