import { useQuery } from "@tanstack/react-query";
import { readResults } from "../../api/scripts";
import { Failure } from "../../parts/notice";
import { Results } from "../../parts/results";
import { Skeleton } from "../../parts/table";
import { text } from "./messages";

/** The rows that a script returned, as its user saw them: after masking. */
export function ResultsTab({ id }: { id: string }) {
  const query = useQuery({
    queryKey: ["results", id],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: () => readResults(id),
  });
  if (query.error) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  if (!query.data) return <Skeleton />;
  const results = query.data.filter(({ columns }) => columns.length > 0);
  if (results.length === 0) return <p>{text.results.none}</p>;
  return <Results results={results} />;
}
