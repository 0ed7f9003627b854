// When a login is renewed: in the last third of its token's life, and only if its user did something meanwhile.

export interface TokenLife {
  readAt: number;
  /** Time by which the token must be renewed; null for one that has no end. */
  expiresAt: number | null;
}

/** Return whether to renew now; `usedAt` is when the user last did something. All are milliseconds. */
export function mustRenew({ readAt, expiresAt }: TokenLife, usedAt: number, now: number): boolean {
  if (expiresAt === null || now >= expiresAt) return false;
  const dueAt = expiresAt - (expiresAt - readAt) / 3;
  return now >= dueAt && usedAt > readAt;
}
