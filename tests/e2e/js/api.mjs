// The npm package `cent.js`, which calls the server API: node api.mjs URL KEY
// Orders are lines of JSON with an `id`, a `method` of the package and its `params`; what comes of
// each is told in a line of JSON.
import { createInterface } from 'node:readline';
import cent from 'cent.js';

const [url, apiKey] = process.argv.slice(2);
const client = new cent.CentClient({ url, apiKey });
const tell = (event, fields) => process.stdout.write(JSON.stringify({ event, ...fields }) + '\n');

// Where the package has another name than the protocol.
const names = {
  presence: 'getPresence',
  presence_stats: 'getPresenceStats',
  history: 'getHistory',
  history_remove: 'removeHistory',
  channels: 'getChannels',
  info: 'getInfo',
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, order, params } = JSON.parse(line);
  await client[names[order] ?? order](params).then(
    (result) => tell('done', { id, result }),
    // The package's errors keep neither code nor words.
    () => tell('failed', { id }),
  );
}
process.exit(0);
