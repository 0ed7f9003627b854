// Lists that are read page by page, by an offset or by a cursor: the answer says which.

import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";

export interface Page<Row> {
  data: Row[];
  total?: number | null;
  has_next_page?: boolean;
  next_cursor?: string | null;
}

/** Which page to read; spread it into the query of a request. */
export interface Place {
  limit: number;
  offset?: number;
  cursor?: string;
}

export interface Pages<Row> {
  rows: Row[];
  total: number | null;
  isPending: boolean;
  isLoadingMore: boolean;
  error: Error | null;
  hasMore: boolean;
  loadMore: () => void;
  retry: () => void;
}

interface Options {
  /** Rows of one page. */
  limit?: number;
  /** Milliseconds between two requests, for lists that change at any time. */
  every?: number;
  enabled?: boolean;
}

/** Read a list. Rows that were read stay while others are loaded. */
export function usePages<Row>(
  key: readonly unknown[],
  read: (place: Place) => Promise<Page<Row>>,
  { limit = 100, every, enabled = true }: Options = {},
): Pages<Row> {
  const list = useInfiniteQuery({
    queryKey: key,
    initialPageParam: {},
    placeholderData: keepPreviousData,
    enabled,
    refetchInterval: every ?? false,
    queryFn: ({ pageParam }) => read({ limit, ...pageParam }),
    getNextPageParam: (page: Page<Row>, pages): Omit<Place, "limit"> | undefined => {
      if (page.next_cursor) return { cursor: page.next_cursor };
      return page.has_next_page ? { offset: pages.length * limit } : undefined;
    },
  });
  return {
    rows: list.data?.pages.flatMap((page) => page.data) ?? [],
    total: list.data?.pages[0]?.total ?? null,
    isPending: list.isPending,
    isLoadingMore: list.isFetchingNextPage,
    error: list.error,
    hasMore: list.hasNextPage,
    loadMore: () => void list.fetchNextPage(),
    retry: () => void list.refetch(),
  };
}

const MOST = 1_000; // rows that are read to choose from; others can still be typed

/** Read a list with offsets to its end, or its first thousand rows. */
export async function readAll<Row>(read: (place: Place) => Promise<Page<Row>>): Promise<Row[]> {
  const rows: Row[] = [];
  while (rows.length < MOST) {
    const page = await read({ limit: 100, offset: rows.length });
    rows.push(...page.data);
    if (!page.has_next_page) break;
  }
  return rows;
}
