// Does the tasks of test_oracle_direct.py by node-oracledb: FOLDER_WITH_NODE_MODULES HOST PORT SERVICE USER PASSWORD.
import { createRequire } from 'node:module';

const [folder, host, port, service, user, password] = process.argv.slice(2);
const oracledb = createRequire(`${folder}/`)('oracledb');
const connect = (changed) =>
  oracledb.getConnection({ user, password, connectString: `${host}:${port}/${service}`, ...changed });
const code = async (work) => {
  try { await work(); return 'no error'; } catch (error) { return error.errorNum || error.code; }
};
const two = (number) => String(number).padStart(2, '0');
const moment = (date) =>
  `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:` +
  `${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, '0')}`;
const shown = (value) => value === null ? 'null' : value instanceof Date ? moment(value)
  : Buffer.isBuffer(value) ? value.toString('hex') : String(value);
const print = (...words) => console.log(words.map((word) => word === true ? 'True' : word).join(' '));

const connection = await connect({});
const run = (sql, binds = [], options = {}) => connection.execute(sql, binds, options);
print('user', (await run('select user from dual')).rows[0][0]);
await run('create table node_types (id number(10) primary key, amount number(12,2), name varchar2(40), born date,' +
  ' seen timestamp(6), token raw(16), ratio binary_double, title nvarchar2(40))');
const insert = 'insert into node_types values (:1, :2, :3, :4, :5, :6, :7, :8)';
await run(insert, [1, 1234567.25, 'Zoë', { type: oracledb.DB_TYPE_DATE, val: new Date(1990, 1, 3, 4, 5, 6) },
  { type: oracledb.DB_TYPE_TIMESTAMP, val: new Date(2024, 0, 2, 3, 4, 5, 678) }, Buffer.from('00ff10', 'hex'),
  { type: oracledb.DB_TYPE_BINARY_DOUBLE, val: 1.5 }, { type: oracledb.DB_TYPE_NVARCHAR, val: 'Ærø' }]);
await run(insert, [2, -0.5, null, null, null, null, null, null]);
const rows = (await run('select * from node_types order by id')).rows;
print('types', ...rows[0].map(shown));
print('nulls', ...rows[1].map(shown));

await run('create table node_lobs (id number, note clob, photo blob)');
const note = 'éa'.repeat(30000);
const photo = Buffer.concat(Array(300).fill(Buffer.from(Array.from({ length: 256 }, (_, n) => n))));
await run('insert into node_lobs values (1, :1, :2)',
  [{ type: oracledb.CLOB, val: note }, { type: oracledb.BLOB, val: photo }]);
const lobs = (await run('select note, photo from node_lobs')).rows[0];
const [readNote, readPhoto] = [await lobs[0].getData(), await lobs[1].getData()];
print('lobs', readNote.length, readNote === note, readPhoto.length, readPhoto.equals(photo));

await run('create table node_rows (id number(10) primary key, name varchar2(20) not null)');
const many = Array.from({ length: 1000 }, (_, n) => [n, `name ${Math.floor(n / 7)}`]);
print('array', (await connection.executeMany('insert into node_rows values (:1, :2)', many)).rowsAffected);
const read = (await run('select id, name from node_rows order by id')).rows;
print('rows', read.length, read.reduce((sum, row) => sum + row[0], 0), new Set(read.map((row) => row[1])).size);
await connection.commit();
const deleted = (await run('delete from node_rows where id >= :least', { least: 10 })).rowsAffected;
await connection.rollback();
print('transaction', deleted, (await run('select count(*) from node_rows')).rows[0][0]);
print('errors', await code(() => run('select * from missing')),
  await code(() => run("insert into node_rows values (1, 'twice')")),
  await code(() => run('insert into node_rows values (2000, null)')),
  await code(() => run('select missing from node_rows')));
const out = (type) => ({ dir: oracledb.BIND_OUT, type });
print('block', (await run('begin :answer := 6 * 7; end;', { answer: out(oracledb.NUMBER) })).outBinds.answer);
await run('create sequence node_sequence start with 100');
print('returning', (await run(
  "insert into node_rows values (node_sequence.nextval + 5000, 'new') returning id into :id",
  { id: out(oracledb.NUMBER) })).outBinds.id[0]);
print('sequence', (await run('select max(id) from node_rows')).rows[0][0]);
const people = (await run('begin open :people for select id, name from node_rows where id < 3 order by id; end;',
  { people: out(oracledb.CURSOR) })).outBinds.people;
print('cursor', ...(await people.getRows(10)).map(([id, name]) => `${id}=${name}`));
await people.close();
await run('begin dbms_output.enable(null); end;');
await run("begin dbms_output.put_line('printed by ' || 'a block'); end;");
print('output', (await run('begin dbms_output.get_line(:line, :status); end;',
  { line: out(oracledb.STRING), status: out(oracledb.NUMBER) })).outBinds.line);
connection.callTimeout = 700;
const cancelled = await code(() => run('begin dbms_session.sleep(30); end;'));
connection.callTimeout = 0;
print('cancelled', cancelled !== 'no error', (await run('select 6 from dual')).rows[0][0]);
await connection.ping();
await connection.close();
print('denied', await code(() => connect({ password: 'wrong' })));
print('refused', (await code(() => connect({ connectString: `${host}:${port}/missing` }))) !== 'no error');
