import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useUser } from "../../api/account";
import { useConnections } from "../../api/lists";
import { type RunbookItem, type RunbookRepository, runbooksQuery } from "../../api/runbooks";
import { byFolder, inOrder, shortCommit, splitPath } from "../../engines/runbooks";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Chip } from "../../parts/chip";
import { Choice } from "../../parts/choice";
import { Copy } from "../../parts/copy";
import { LinkButton } from "../../parts/link-button";
import { MarkedText } from "../../parts/marked-text";
import { Failure, Notice } from "../../parts/notice";
import { Search } from "../../parts/search";
import { Section } from "../../parts/section";
import { type Column, Skeleton, Table } from "../../parts/table";
import { Time } from "../../parts/time";
import { text } from "./messages";
import styles from "./runbooks.module.css";
import { RunbooksPage } from "./runbooks-page";

const MOST = 500; // runbooks of a repository that are shown; there can be 10,000
const NAMED = 3; // connections that a row names
const ANYWHERE = "";

/** All runbooks that the user can run, by repository and folder. */
export function RunbooksScreen() {
  const { search = "", connection = "" } = useSearch({ from: "/shell/runbooks" });
  const query = useQuery({ ...runbooksQuery(search, connection), placeholderData: keepPreviousData });
  return (
    <RunbooksPage path="/runbooks" title={text.title}>
      <Narrowing search={search} connection={connection} />
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton />}
      {query.data === null && <NoRepository />}
      {query.data && (
        <>
          <Errors errors={query.data.errors} />
          <Repositories repositories={query.data.repositories} search={search} connection={connection} />
        </>
      )}
    </RunbooksPage>
  );
}

function Narrowing({ search, connection }: { search: string; connection: string }) {
  const navigate = useNavigate({ from: "/runbooks" });
  const names = [...new Set([...(connection ? [connection] : []), ...useConnections().map(({ name }) => name)])];
  const narrow = (words: string, name: string) =>
    void navigate({ search: { ...(words && { search: words }), ...(name && { connection: name }) }, replace: true });
  return (
    <div className={styles.bar}>
      <Search label={text.list.search} value={search} onSearch={(words) => narrow(words, connection)} />
      <Choice
        label={text.list.connection}
        isInline
        value={connection}
        options={[[ANYWHERE, text.list.anyConnection], ...names.map((name) => [name, name] as const)]}
        onChange={(name) => narrow(search, name)}
      />
    </div>
  );
}

/** Repositories that could not be read, with what to do about each; what was read before is shown below. */
function Errors({ errors }: { errors: string[] }) {
  if (errors.length === 0) return null;
  return (
    <Notice kind="held">
      <p>{text.list.errors}</p>
      <ul className="stack">
        {errors.map((error) => (
          <li key={error}>
            <MarkedText text={error} />
          </li>
        ))}
      </ul>
    </Notice>
  );
}

interface RepositoriesProps {
  repositories: RunbookRepository[];
  search: string;
  connection: string;
}

function Repositories({ repositories, search, connection }: RepositoriesProps) {
  const filled = repositories.filter(({ items }) => items.length > 0);
  const count = filled.reduce((sum, { items }) => sum + items.length, 0);
  if (count === 0) return <Nothing search={search} connection={connection} />;
  return (
    <>
      <p role="status" className="secondary">
        {counted(text.list.count, count)}
      </p>
      {filled.map((repository) => (
        <Repository key={repository.repository} repository={repository} connection={connection} />
      ))}
    </>
  );
}

function Repository({ repository, connection }: { repository: RunbookRepository; connection: string }) {
  const { items, commit, commit_author, commit_message, fetched_at } = repository;
  const columns = columnsOf(repository.repository, connection);
  return (
    <Section title={repository.repository}>
      <p className={styles.commit}>
        <code>{text.list.commit(shortCommit(commit))}</code>{" "}
        <MarkedText text={text.list.by(commit_author, commit_message)} />
        {fetched_at && (
          <>
            {" · "}
            {text.list.read} <Time at={fetched_at} />
          </>
        )}
      </p>
      {byFolder(items.slice(0, MOST)).map(({ folder, items }) => (
        <div key={folder} className={styles.folder}>
          <h3 className={folder ? "mono" : undefined}>
            <MarkedText text={folder ? `${folder}/` : text.list.root} />
          </h3>
          <Table label={folder || text.list.root} columns={columns} rows={items} keyOf={({ name }) => name} />
        </div>
      ))}
      {items.length > MOST && <p className="secondary">{text.list.more(MOST, items.length)}</p>}
    </Section>
  );
}

const columnsOf = (repository: string, connection: string): Column<RunbookItem>[] => [
  {
    title: text.list.runbook,
    cell: ({ name, connections }) => (
      <Link
        to="/runbooks/run"
        search={{ repository, file: name, ...whereOf(connection, connections ?? []) }}
        className="mono"
      >
        <MarkedText text={splitPath(name).file} />
      </Link>
    ),
  },
  {
    title: text.list.parameters,
    cell: ({ metadata, error }) =>
      error === null ? (
        <MarkedText
          text={
            inOrder(metadata)
              .map(([name]) => name)
              .join(", ") || common.none
          }
        />
      ) : (
        <span className="row">
          <Chip kind="refused">{text.list.invalid}</Chip>
          <MarkedText text={error} />
        </span>
      ),
  },
  { title: text.list.connections, cell: ({ connections }) => <Names names={connections ?? []} /> },
];

/** The connection to start with: that of the list, or the only one there is. */
function whereOf(connection: string, connections: string[]): { connection?: string } {
  const only = connections.length === 1 ? connections[0] : undefined;
  const where = connection || only;
  return where ? { connection: where } : {};
}

function Names({ names }: { names: string[] }) {
  if (names.length === 0) return <span className="secondary">{common.none}</span>;
  return (
    <>
      <MarkedText text={names.slice(0, NAMED).join(", ")} />
      {names.length > NAMED && ` ${common.andMore(names.length - NAMED)}`}
    </>
  );
}

function Nothing({ search, connection }: { search: string; connection: string }) {
  const { is_admin } = useUser();
  if (search) return <p>{common.noMatch(search)}</p>;
  if (connection) return <p>{text.list.noneOf(connection)}</p>;
  return (
    <div className="stack">
      <p>{text.list.none}</p>
      {is_admin && (
        <>
          <p>{text.list.noneHint}</p>
          <Copy label={common.commandLine} text={text.list.writeCommand} />
        </>
      )}
    </div>
  );
}

function NoRepository() {
  const { is_admin } = useUser();
  return (
    <div className="stack">
      <p>{text.list.noRepository}</p>
      {is_admin && (
        <>
          <div>
            <LinkButton kind="primary" to="/runbooks/repositories/new">
              {text.list.addRepository}
            </LinkButton>
          </div>
          <Copy label={common.commandLine} text={text.list.addCommand} />
        </>
      )}
    </div>
  );
}
