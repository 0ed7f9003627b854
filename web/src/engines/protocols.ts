// Facts about protocols by subtype, generated from their registry by `make docs`. `isSql`: scripts are SQL;
// `hasRows`: results are rows, others print text; `isOpaque`: bytes pass unread, and there are no scripts.
export const PROTOCOLS = {
  postgres: { isSql: true, hasRows: true, isOpaque: false },
  mysql: { isSql: true, hasRows: true, isOpaque: false },
  mssql: { isSql: true, hasRows: true, isOpaque: false },
  oracledb: { isSql: true, hasRows: true, isOpaque: false },
  mongodb: { isSql: false, hasRows: true, isOpaque: false },
  httpproxy: { isSql: false, hasRows: true, isOpaque: false },
  dynamodb: { isSql: false, hasRows: true, isOpaque: false },
  cloudwatch: { isSql: false, hasRows: true, isOpaque: false },
  ssh: { isSql: false, hasRows: false, isOpaque: false },
  tcp: { isSql: false, hasRows: false, isOpaque: true },
  terminal: { isSql: false, hasRows: false, isOpaque: false },
} as const;
