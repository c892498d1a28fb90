// One client of the npm package `centrifuge`, steered by lines of JSON on standard input.
// node sdk.mjs [protobuf] [http_stream | sse]
// What happens to it is told in lines of JSON on standard output, in the order in which it happens.
// python/sdk.py speaks the same language with the other official SDK.
import { createInterface } from 'node:readline';
import EventSource from 'eventsource';
import WebSocket from 'ws';

// Two builds of the package. In Protobuf data are bytes, which here are always JSON.
const words = process.argv.slice(2);
const protobuf = words.includes('protobuf');
// A transport that emulates a WebSocket, if one is to be used.
const emulated = words.find((word) => word !== 'protobuf');
const { Centrifuge } = await import(protobuf ? 'centrifuge/build/protobuf' : 'centrifuge');
const written = (data) => (protobuf ? new TextEncoder().encode(JSON.stringify(data)) : data);
const read = (data) =>
  protobuf && data?.length ? JSON.parse(new TextDecoder().decode(data)) : data;

const tell = (event, fields = {}) =>
  process.stdout.write(JSON.stringify({ event, ...fields }) + '\n');

let client;
const subscriptions = new Map();

// The tokens that a backend would hand out, one after the other.
const supplier = (name, tokens) => {
  if (!tokens) return null;
  return async () => {
    tell(name);
    const token = tokens.shift();
    if (token === undefined) throw new Error('no more tokens');
    return token;
  };
};

function follow(sub, channel) {
  sub.on('subscribing', ({ code, reason }) => tell('subscribing', { channel, code, reason }));
  sub.on('subscribed', (ctx) =>
    tell('subscribed', {
      channel,
      was_recovering: ctx.wasRecovering,
      recovered: ctx.recovered,
      recoverable: ctx.recoverable,
      offset: ctx.streamPosition?.offset,
      epoch: ctx.streamPosition?.epoch,
    }),
  );
  sub.on('unsubscribed', ({ code, reason }) => tell('unsubscribed', { channel, code, reason }));
  sub.on('publication', ({ data, offset, info }) => {
    tell('publication', { channel, data: read(data), offset, user: info?.user });
  });
  sub.on('join', ({ info: { client, user } }) => tell('join', { channel, client, user }));
  sub.on('leave', ({ info: { client, user } }) => tell('leave', { channel, client, user }));
  sub.on('error', ({ error: { code, message } }) => {
    tell('subscription error', { channel, code, message });
  });
}

// Another path of the server that a WebSocket's URL names, by HTTP.
const at = (url, path) => new URL(path, url.replace(/^ws/, 'http')).href;

const endpoint = (url) =>
  emulated ? [{ transport: emulated, endpoint: at(url, `/connection/${emulated}`) }] : url;

function connect(order) {
  client = new Centrifuge(endpoint(order.url), {
    websocket: WebSocket,
    eventsource: EventSource,
    emulationEndpoint: at(order.emulation ?? order.url, '/emulation'),
    headers: order.headers ?? {},
    token: order.token ?? '',
    getToken: supplier('token wanted', order.tokens),
    minReconnectDelay: 20,
    maxReconnectDelay: 200,
    timeout: 20000,
    maxServerPingDelay: order.ping_delay_ms ?? 10000,
  });
  client.on('connecting', (ctx) => tell('connecting', { code: ctx.code, reason: ctx.reason }));
  client.on('connected', (ctx) => tell('connected', { client: ctx.client, data: read(ctx.data) }));
  client.on('disconnected', (ctx) => tell('disconnected', { code: ctx.code, reason: ctx.reason }));
  client.on('error', (ctx) => tell('error', { code: ctx.error.code, message: ctx.error.message }));
  client.on('message', (ctx) => tell('message', { data: read(ctx.data) }));
  // Subscriptions that the token made.
  client.on('subscribed', ({ channel, wasRecovering, recovered }) => {
    tell('subscribed', { channel, was_recovering: wasRecovering, recovered });
  });
  client.on('unsubscribed', (ctx) => tell('unsubscribed', { channel: ctx.channel }));
  client.on('publication', (ctx) => {
    tell('publication', { channel: ctx.channel, data: read(ctx.data), offset: ctx.offset });
  });
  client.connect();
}

const orders = {
  connect,
  disconnect: () => client.disconnect(),
  subscribe(order) {
    let sub = subscriptions.get(order.channel);
    if (!sub) {
      sub = client.newSubscription(order.channel, {
        token: order.token ?? '',
        getToken: supplier('subscription token wanted', order.tokens),
        delta: order.delta,
        tagsFilter: order.filter,
        data: order.data && written(order.data),
        minResubscribeDelay: 20,
        maxResubscribeDelay: 200,
      });
      subscriptions.set(order.channel, sub);
      follow(sub, order.channel);
    }
    sub.subscribe();
  },
  unsubscribe: (order) => subscriptions.get(order.channel).unsubscribe(),
  publish: (order) => client.publish(order.channel, written(order.data)).then(() => ({})),
  async history(order) {
    const { limit, since, reverse } = order;
    const page = await client.history(order.channel, { limit, since, reverse });
    const data = page.publications.map((pub) => read(pub.data));
    return { data, offset: page.offset, epoch: page.epoch };
  },
  async rpc(order) {
    return { data: read((await client.rpc(order.method, written(order.data))).data) };
  },
  async presence(order) {
    const { clients } = await client.presence(order.channel);
    const users = Object.values(clients).map((info) => info.user);
    return { clients: Object.keys(clients).sort(), users: users.sort() };
  },
  async presence_stats(order) {
    const { numClients, numUsers } = await client.presenceStats(order.channel);
    return { num_clients: numClients, num_users: numUsers };
  },
  send: (order) => client.send(written(order.data)).then(() => ({})),
};

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  const result = orders[order.order](order);
  result?.then(
    (fields) => tell('done', { id: order.id, ...fields }),
    (error) => tell('failed', { id: order.id, code: error.code, message: error.message }),
  );
}
process.exit(0);
