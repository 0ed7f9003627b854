// The tasks of test_mongodb_drivers.py with the Node.js driver. Arguments: the folder with node_modules, the connection
// string, the name of a database. Prints one line for each task.
import { createRequire } from 'node:module';

const [, , modules, uri, database] = process.argv;
const { MongoClient, GridFSBucket, MongoServerError } = createRequire(`${modules}/`)('mongodb');

const client = new MongoClient(uri, { serverSelectionTimeoutMS: 30000 });
await client.connect();
const db = client.db(database);
await db.dropDatabase();
const notes = db.collection('notes');

async function fails(work) {
  try {
    await work();
    return 'no error';
  } catch (error) {
    return error instanceof MongoServerError ? `${error.code}` : `${error}`;
  }
}

await notes.insertMany(Array.from({ length: 5000 }, (_, n) => ({ _id: n, group: n % 10, text: 'grüße '.repeat(100) })));
console.log('inserted', await notes.countDocuments({}));
let sum = 0;
for await (const note of notes.find({}, { batchSize: 500 })) sum += note._id;
console.log('read', sum);
const groups = await notes.aggregate([{ $group: { _id: '$group', n: { $sum: 1 } } }, { $sort: { _id: 1 } }]).toArray();
console.log('groups', groups.map((one) => `${one._id}:${one.n}`).join(' '));
console.log('updated', (await notes.updateMany({ group: 3 }, { $set: { text: 'short' } })).modifiedCount);
console.log('distinct', (await notes.distinct('group')).length);
console.log('found and changed', (await notes.findOneAndUpdate({ _id: 7 }, { $inc: { group: 1 } }))._id);
console.log('duplicate', await fails(() => notes.insertOne({ _id: 7 })));
console.log('unknown command', await fails(() => db.command({ noSuchCommand: 1 })));
console.log('denied', await fails(() => db.collection('forbidden').deleteMany({})));
console.log('usable', (await db.command({ ping: 1 })).ok);
const session = client.startSession();
await session.withTransaction(async () => {
  await notes.insertOne({ _id: 'in a transaction' }, { session });
  await notes.deleteOne({ _id: 8 }, { session });
});
await session.endSession();
console.log('committed', await notes.countDocuments({ _id: { $in: ['in a transaction', 8] } }));
const bucket = new GridFSBucket(db);
await new Promise((resolve, reject) => bucket.openUploadStream('file').on('finish', resolve).on('error', reject).end(Buffer.alloc(1000000, 'x')));
let bytes = 0;
for await (const chunk of bucket.openDownloadStreamByName('file')) bytes += chunk.length;
console.log('file', bytes);
const changes = notes.watch();
const next = changes.next();
await new Promise((resolve) => setTimeout(resolve, 1000));
await notes.insertOne({ _id: 'watched' });
console.log('change', (await next).documentKey._id);
await changes.close();
const silent = db.collection('silent');
await silent.insertOne({ _id: 1 }, { writeConcern: { w: 0 } });
while ((await silent.countDocuments({})) === 0);
console.log('unacknowledged', await silent.countDocuments({}));
const sums = await Promise.all(
  Array.from({ length: 10 }, async (_, group) => (await notes.find({ group }, { batchSize: 50 }).toArray()).length),
);
console.log('in parallel', sums.reduce((all, one) => all + one, 0));
await client.close();
