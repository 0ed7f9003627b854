// The tasks of test_aws_sdks.py with the SDK for JavaScript. Arguments: the folder with node_modules, and the service.
// Address and credential come from the environment. Prints one line for each task.
import { createRequire } from 'node:module';

const load = createRequire(`${process.argv[2]}/`);
const { DynamoDBClient, GetItemCommand, DeleteItemCommand, paginateScan } = load('@aws-sdk/client-dynamodb');
const { CloudWatchLogsClient, FilterLogEventsCommand, DeleteLogGroupCommand } = load('@aws-sdk/client-cloudwatch-logs');

async function fails(work) {
  try {
    await work();
    return 'no error';
  } catch (error) {
    return `${error.name} ${error.$metadata?.attempts}`;
  }
}

if (process.argv[3] === 'dynamodb') {
  const dynamodb = new DynamoDBClient({});
  const Key = { id: { S: '1' } };
  const { Item } = await dynamodb.send(new GetItemCommand({ TableName: 'people', Key }));
  console.log('item', Item.email.S, Item.city.S);
  let count = 0;
  for await (const page of paginateScan({ client: dynamodb, pageSize: 7 }, { TableName: 'people' })) count += page.Count;
  console.log('scanned', count);
  console.log('refused', await fails(() => dynamodb.send(new DeleteItemCommand({ TableName: 'people', Key }))));
  const stranger = new DynamoDBClient({ credentials: { accessKeyId: 'a', secretAccessKey: 'b', sessionToken: 'b' } });
  console.log('stranger', await fails(() => stranger.send(new GetItemCommand({ TableName: 'people', Key }))));
} else {
  const logs = new CloudWatchLogsClient({});
  const { events } = await logs.send(new FilterLogEventsCommand({ logGroupName: 'shop' }));
  console.log('events', events.map((event) => event.message).join(' '));
  console.log('refused', await fails(() => logs.send(new DeleteLogGroupCommand({ logGroupName: 'shop' }))));
}
