// Output parameters with tedious: `node mssql_outputs.mjs FOLDER HOST PORT USER PASSWORD DATABASE ENCRYPTION AUTHORITY`.
// Each line is `case: values`, or `case: denied` for an error of a masking rule.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [folder, host, port, user, password, database, encryption, authority] = process.argv.slice(2);
const { Connection, Request, TYPES } = createRequire(`${folder}/`)("tedious");
const tls = encryption === "no" ? {} : { cryptoCredentialsDetails: { ca: readFileSync(authority) } };
const connection = new Connection({
  server: host,
  authentication: { type: "default", options: { userName: user, password } },
  options: { port: Number(port), database, encrypt: { no: false, yes: true }[encryption], ...tls },
});

function run(method, text, outputs) {
  return new Promise((resolve) => {
    const returned = {};
    const request = new Request(text, (error) => {
      if (error) resolve(/blocked by masking rule/.test(error.message) ? "denied" : String(error.message));
      else resolve(Object.values(returned).join(" "));
    });
    for (const [name, type, options] of outputs) request.addOutputParameter(name, type, null, options);
    request.on("returnValue", (name, value) => (returned[name] = value));
    connection[method](request);
  });
}

const TEXT = "select @name = name, @id = id from staff where id = 1";
const BOTH = [
  ["name", TYPES.NVarChar, { length: 40 }],
  ["id", TYPES.Int],
];
const cases = {
  values: () => run("execSql", TEXT, BOTH),
  known: () => run("execSql", "set @n = 7", [["n", TYPES.Int]]),
  short: () => run("execSql", "select @n = name from staff where id = 1", [["n", TYPES.NVarChar, { length: 2 }]]),
  computed: () => run("execSql", "select @n = len(name) from staff where id = 1", [["n", TYPES.Int]]),
  procedure: () => run("callProcedure", "p_out", [["o", TYPES.NVarChar]]),
};

connection.connect(async (error) => {
  if (error) throw error;
  for (const [name, each] of Object.entries(cases)) console.log(`${name}: ${await each()}`);
  connection.close();
});
