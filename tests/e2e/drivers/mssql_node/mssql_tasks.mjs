// Tasks with tedious: `node mssql_tasks.mjs FOLDER HOST PORT USER PASSWORD DATABASE ENCRYPTION AUTHORITY`. FOLDER has
// its node_modules. Each task prints `task: answer`.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [folder, host, port, user, password, database, encryption, authority] = process.argv.slice(2);
const { Connection, Request, TYPES } = createRequire(`${folder}/`)("tedious");
const TYPES_OF_ROW = `
select cast(7 as tinyint), cast(-300 as smallint), 100000, cast(9000000000 as bigint), cast(1 as bit), cast(0.5 as float),
 cast('12.50' as decimal(10,2)), cast('3.25' as money), cast('grün' as varchar(10)), N'żółw', cast('ab' as char(4)),
 cast(0x0102 as varbinary(8)), cast('2024-02-29' as date), cast('2024-02-29 13:14:15.123' as datetime),
 cast('2024-02-29 13:14:15.1234567' as datetime2), cast('13:14:15' as time(0)),
 cast('6F9619FF-8B86-D011-B42D-00C04FC964FF' as uniqueidentifier), cast(N'<a>ü</a>' as xml), null`;

const tls = encryption === "no" ? {} : { cryptoCredentialsDetails: { ca: readFileSync(authority) } };
const connection = new Connection({
  server: host,
  authentication: { type: "default", options: { userName: user, password } },
  options: { port: Number(port), database, encrypt: { no: false, yes: true, strict: "strict" }[encryption], ...tls },
});

function run(method, sql, parameters = [], outputs = []) {
  return new Promise((resolve, reject) => {
    const sets = [];
    const returned = {};
    const request = new Request(sql, (error, count) => (error ? reject(error) : resolve({ sets, returned, count })));
    for (const [name, type, value, options] of parameters) request.addParameter(name, type, value, options);
    for (const [name, type] of outputs) request.addOutputParameter(name, type);
    request.on("columnMetadata", () => sets.push([]));
    request.on("row", (columns) => sets.at(-1).push(columns.map((column) => column.value)));
    request.on("returnValue", (name, value) => (returned[name] = value));
    connection[method](request);
  });
}

const query = async (sql, ...parameters) => (await run("execSql", sql, parameters)).sets;
const batch = async (sql) => (await run("execSqlBatch", sql)).sets;
const call = (method, ...values) =>
  new Promise((resolve, reject) => connection[method]((error) => (error ? reject(error) : resolve()), ...values));

function shown(value) {
  if (value === null) return "None";
  if (typeof value === "boolean") return String(Number(value));
  if (Buffer.isBuffer(value)) return value.toString("hex");
  if (value instanceof Date) return value.toISOString().replace("T", " ").replace("Z", "");
  return String(value);
}

const fails = (sql) => batch(sql).then(() => "no error", (error) => String(error.number));

const tasks = {
  types: async () => (await query(TYPES_OF_ROW))[0][0].map(shown).join(" "),
  parameters: async () => {
    const [[row]] = await query(
      "select @a, @b, @c, @d",
      ["a", TYPES.Int, 5],
      ["b", TYPES.NVarChar, "grün"],
      ["c", TYPES.Decimal, 1.5, { precision: 10, scale: 2 }],
      ["d", TYPES.Int, null],
    );
    return row.map(shown).join(" ");
  },
  repeated: () =>
    new Promise((resolve, reject) => {
      const answers = [];
      let unprepared = false;
      const request = new Request("select @a * 2", (error) => {
        if (error) reject(error);
        else if (unprepared) resolve(answers.join(" "));
        else if (answers.length === 4) {
          unprepared = true;
          connection.unprepare(request);
        } else connection.execute(request, { a: answers.length });
      });
      request.addParameter("a", TYPES.Int);
      request.on("row", ([column]) => answers.push(column.value));
      request.on("prepared", () => connection.execute(request, { a: 0 }));
      connection.prepare(request);
    }),
  results: async () => (await batch("select 1; select 2 union all select 3")).map((rows) => rows.length).join(" "),
  "many rows": async () => {
    const text = "with n as (select 1 as i union all select i + 1 from n where i < 5000)";
    const [rows] = await batch(`${text} select i from n option (maxrecursion 0)`);
    return rows.reduce((sum, [value]) => sum + value, 0);
  },
  "large value": async () => {
    const text = "ü".repeat(100_000);
    return (await query("select @a", ["a", TYPES.NVarChar, text]))[0][0][0] === text ? "True" : "False";
  },
  changes: async () => {
    await batch("create table #changes (id int identity(1,1) primary key, name nvarchar(10))");
    const counts = [];
    for (const text of ["insert into #changes (name) values ('a'), ('b'), ('c')", "update #changes set name = 'x' where id > 1"])
      counts.push((await run("execSqlBatch", text)).count);
    return [...counts, (await run("execSqlBatch", "delete from #changes")).count].join(" ");
  },
  errors: async () => {
    await batch("create table #errors (id int primary key, name nvarchar(3)); insert into #errors values (1, 'a')");
    const texts = ["select 1/0", "select cast('abc' as int)", "insert into #errors values (1, 'b')"];
    const numbers = [];
    for (const text of [...texts, "insert into #errors values (2, 'abcd')"]) numbers.push(await fails(text));
    return numbers.join(" ");
  },
  transactions: async () => {
    await batch("if object_id('tx_node') is not null drop table tx_node; create table tx_node (id int)");
    const counts = [];
    for (const end of ["rollbackTransaction", "commitTransaction"]) {
      await call("beginTransaction", "named");
      await batch("insert into tx_node values (1)");
      await call(end);
      counts.push((await batch("select count(*) from tx_node"))[0][0][0]);
    }
    return counts.join(" ");
  },
  procedure: async () => {
    await batch("create or alter procedure twice_node @a int, @b int output as begin set @b = @a * 2 end");
    return (await run("callProcedure", "twice_node", [["a", TYPES.Int, 21]], [["b", TYPES.Int]])).returned.b;
  },
  bulk: async () => {
    await batch("create table #bulk (id int, name nvarchar(20))");
    const rows = Array.from({ length: 1000 }, (_, number) => ({ id: number, name: `n${number}` }));
    await new Promise((resolve, reject) => {
      const load = connection.newBulkLoad("#bulk", (error) => (error ? reject(error) : resolve()));
      load.addColumn("id", TYPES.Int, { nullable: true });
      load.addColumn("name", TYPES.NVarChar, { length: 20, nullable: true });
      connection.execBulkLoad(load, rows);
    });
    return (await batch("select sum(id) from #bulk"))[0][0][0];
  },
  "table value": async () => {
    const columns = [{ name: "id", type: TYPES.Int }, { name: "name", type: TYPES.NVarChar, length: 20 }];
    const rows = [[1, "x"], [2, "ü"]];
    const [found] = await query("select * from @t", ["t", TYPES.TVP, { columns, rows, name: "pair", schema: "dbo" }]);
    return found.map((row) => row.join("=")).join(" ");
  },
  cancelled: async () => {
    setTimeout(() => connection.cancel(), 500);
    const code = await batch("waitfor delay '00:00:30'").then(() => "ran", (error) => error.code);
    return code === "ECANCEL" ? (await batch("select 5"))[0][0][0] : code;
  },
  "cancelled rows": async () => {
    const text = "with n as (select 1 as i union all select i + 1 from n where i < 1000000) select i, replicate('x', 50) from n";
    const code = await new Promise((resolve) => {
      let count = 0;
      const request = new Request(`${text} option (maxrecursion 0)`, (error) => resolve(error?.code));
      request.on("row", () => ++count === 10 && connection.cancel());
      connection.execSqlBatch(request);
    });
    return code === "ECANCEL" ? (await batch("select 5"))[0][0][0] : code;
  },
  reset: async () => {
    await batch("create table #gone (id int)");
    await call("reset");
    return fails("select * from #gone");
  },
};

connection.connect(async (error) => {
  if (error) throw error;
  for (const [name, task] of Object.entries(tasks)) console.log(`${name}: ${await task()}`);
  connection.close();
});
