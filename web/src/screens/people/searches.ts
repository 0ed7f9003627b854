/** The states of an account, as addresses of lists say them. */
export const STATUSES = ["active", "invited", "inactive"] as const;

export interface PeopleSearch {
  search?: string;
  status?: (typeof STATUSES)[number];
}
