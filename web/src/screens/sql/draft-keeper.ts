import { canKeepDrafts, claimDraft, claimDrafts, removeDraft, storeDraft } from "../../api/drafts";
import { blankDraft, type Draft, isBlank, LONGEST_SCRIPT, nextNumber } from "../../engines/sql/drafts";

const PAUSE = 250; // milliseconds in which changes are stored together

/** Why what is typed is not kept. */
export type DraftProblem = "unsupported" | "storage" | "long";

/** The drafts of one connection that this page has open. Their changes are stored soon, and at the latest when it is left. */
export class DraftKeeper {
  onProblem: (problem: DraftProblem | null) => void = () => {};
  problem: DraftProblem | null = null;
  private readonly drafts = new Map<string, Draft>();
  private readonly changed = new Set<string>();
  private readonly releases: (() => void)[] = [];
  private timer = 0;
  private isClosed = false;

  private constructor(
    private readonly user: string,
    private readonly connection: string,
  ) {}

  /** Open the drafts that no other tab of the browser has open. Without any there is a blank one. */
  static async open(user: string, connection: string): Promise<DraftKeeper> {
    const keeper = new DraftKeeper(user, connection);
    if (!canKeepDrafts()) keeper.problem = "unsupported";
    else {
      try {
        const { drafts, releases } = await claimDrafts(user, connection);
        keeper.releases.push(...releases);
        for (const draft of drafts) keeper.drafts.set(draft.id, draft);
      } catch {
        keeper.problem = "storage";
      }
    }
    if (keeper.drafts.size === 0) keeper.add();
    return keeper;
  }

  get list(): Draft[] {
    return [...this.drafts.values()].sort((a, b) => a.number - b.number);
  }

  add(): Draft {
    const about = { user: this.user, connection: this.connection, id: newId(), number: nextNumber(this.list) };
    const draft = blankDraft(about, Date.now());
    this.restore(draft);
    return draft;
  }

  /** Open a draft that was closed, or a new one. Its number can have gone to another meanwhile. */
  restore(draft: Draft): void {
    const isTaken = this.list.some(({ number }) => number === draft.number);
    this.drafts.set(draft.id, isTaken ? { ...draft, number: nextNumber(this.list) } : draft);
    this.note(draft.id);
    if (this.problem === "unsupported") return;
    void claimDraft(draft.id).then((release) => {
      if (release !== null && this.isClosed) release();
      else if (release !== null) this.releases.push(release);
    });
  }

  change(id: string, part: Partial<Draft>): void {
    const draft = this.drafts.get(id);
    if (draft === undefined || this.isClosed) return;
    this.drafts.set(id, { ...draft, ...part, usedAt: Date.now() });
    this.note(id);
  }

  /** Close a draft. Return it, so that it can be restored. */
  remove(id: string): Draft | undefined {
    const draft = this.drafts.get(id);
    this.drafts.delete(id);
    this.changed.delete(id);
    if (draft) removeDraft(draft).catch(() => this.tell("storage"));
    return draft;
  }

  /** Store what has changed now. */
  async flush(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = 0;
    if (this.problem === "unsupported") return;
    const drafts = this.list.filter(({ id }) => this.changed.has(id));
    this.changed.clear();
    const isLong = drafts.some(({ script }) => script.length > LONGEST_SCRIPT);
    try {
      await Promise.all(drafts.map(store));
      if (drafts.length > 0) this.tell(isLong ? "long" : null);
    } catch {
      this.tell("storage");
    }
  }

  /** Store what has changed, then let other tabs open the drafts. */
  async close(): Promise<void> {
    this.isClosed = true;
    await this.flush();
    for (const release of this.releases.splice(0)) release();
  }

  private note(id: string): void {
    this.changed.add(id);
    if (this.timer === 0) this.timer = window.setTimeout(() => void this.flush(), PAUSE);
  }

  private tell(problem: DraftProblem | null): void {
    if (problem === this.problem) return;
    this.problem = problem;
    this.onProblem(problem);
  }
}

/** A blank draft is not stored. What is too long to run stays as it was stored last. */
async function store(draft: Draft): Promise<void> {
  if (isBlank(draft)) return removeDraft(draft);
  if (draft.script.length <= LONGEST_SCRIPT) return storeDraft(draft);
}

/** Return a new identifier; over plain HTTP the browser makes no UUIDs. */
function newId(): string {
  return [...crypto.getRandomValues(new Uint32Array(4))].map((part) => part.toString(36)).join("-");
}
