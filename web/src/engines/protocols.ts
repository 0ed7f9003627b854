// Facts about protocols by subtype, generated from their registry by `make docs`. `isSql`: scripts are SQL;
// `hasRows`: results are rows, others print text; `isOpaque`: bytes pass unread, and there are no scripts;
// `hasListener`: native clients have a port.
export const PROTOCOLS = {
  postgres: { isSql: true, hasRows: true, isOpaque: false, hasListener: true },
  mysql: { isSql: true, hasRows: true, isOpaque: false, hasListener: true },
  mssql: { isSql: true, hasRows: true, isOpaque: false, hasListener: true },
  oracledb: { isSql: true, hasRows: true, isOpaque: false, hasListener: true },
  mongodb: { isSql: false, hasRows: true, isOpaque: false, hasListener: true },
  httpproxy: { isSql: false, hasRows: true, isOpaque: false, hasListener: true },
  dynamodb: { isSql: false, hasRows: true, isOpaque: false, hasListener: true },
  cloudwatch: { isSql: false, hasRows: true, isOpaque: false, hasListener: true },
  ssh: { isSql: false, hasRows: false, isOpaque: false, hasListener: true },
  tcp: { isSql: false, hasRows: false, isOpaque: true, hasListener: true },
  terminal: { isSql: false, hasRows: false, isOpaque: false, hasListener: false },
} as const;
