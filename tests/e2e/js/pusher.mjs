// One client of the npm package `pusher-js`, and the back end that signs for it and publishes, with
// the npm package `pusher`: node pusher.mjs APP KEY SECRET
// Orders and events are lines of JSON, as with sdk.mjs. Both packages use the port for clients.
import { createInterface } from 'node:readline';
import Pusher from 'pusher-js';
import Backend from 'pusher';

const [appId, key, secret] = process.argv.slice(2);
// Encrypted channels are a matter between back end and client.
const encryptionMasterKeyBase64 = Buffer.alloc(32, 'k').toString('base64');
const tell = (event, fields = {}) =>
  process.stdout.write(JSON.stringify({ event, ...fields }) + '\n');

let client;
let backend;

// Names of the events that the package makes of the protocol's own.
const own = {
  'pusher:subscription_succeeded': 'subscribed',
  'pusher:subscription_error': 'refused',
  'pusher:cache_miss': 'missed',
};

function follow(channel) {
  channel.bind_global((name, data) =>
    tell(own[name] ?? 'publication', { channel: channel.name, name, data }),
  );
}

const orders = {
  connect({ url, user }) {
    const { hostname: host, port } = new URL(url);
    const app = { appId, key, secret, encryptionMasterKeyBase64 };
    backend = new Backend({ ...app, host, port, useTLS: false });
    client = new Pusher(key, {
      cluster: '',
      wsHost: host,
      wsPort: Number(port),
      forceTLS: false,
      enabledTransports: ['ws'],
      channelAuthorization: {
        customHandler({ socketId, channelName }, done) {
          done(null, backend.authorizeChannel(socketId, channelName));
        },
      },
      userAuthentication: {
        customHandler: ({ socketId }, done) =>
          done(null, backend.authenticateUser(socketId, { id: user })),
      },
    });
    const { connection } = client;
    connection.bind('connected', () => tell('connected', { id: connection.socket_id }));
    connection.bind('state_change', ({ current }) => tell('state', { state: current }));
    connection.bind('error', ({ error, data }) => tell('error', data ?? error?.data));
    client.bind('pusher:signin_success', ({ user_data }) => tell('signed_in', { user_data }));
    client.user.bind_global((name, data) => tell('noted', { name, data }));
  },
  subscribe: ({ channel }) => follow(client.subscribe(channel)),
  unsubscribe: ({ channel }) => client.unsubscribe(channel),
  send: ({ channel, name, data }) => client.channel(channel).trigger(name, data),
  signin: () => client.signin(),
  async trigger({ channels, name, data, ...options }) {
    return answer(await backend.trigger(channels, name, data, options));
  },
  batch: async ({ batch }) => answer(await backend.triggerBatch(batch)),
  note: async ({ user, name, data }) => answer(await backend.sendToUser(user, name, data)),
  terminate: async ({ user }) => answer(await backend.terminateUserConnections(user)),
  get: async ({ path, params }) => answer(await backend.get({ path, params })),
};

const answer = async (response) => ({ status: response.status, body: await response.json() });

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  const result = orders[order.order](order);
  result?.then?.(
    (fields) => tell('done', { id: order.id, ...fields }),
    (error) => tell('failed', { id: order.id, status: error.status, body: error.body }),
  );
}
process.exit(0);
