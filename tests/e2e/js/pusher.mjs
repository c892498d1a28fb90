// One client of the npm package `pusher-js`, alone or below `laravel-echo`, and the back end that
// signs for it and publishes, with the npm package `pusher`: node pusher.mjs APP KEY SECRET [echo]
// Orders and events are lines of JSON, as with sdk.mjs. All packages use the port for clients.
// `receive` begins the back end's receiver of webhooks, at a port if one is given, whose signatures
// that package checks, and `standardwebhooks`; `site` begins a page for a real browser.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import Echo from 'laravel-echo';
import Pusher from 'pusher-js';
import Backend from 'pusher';
import { Webhook } from 'standardwebhooks';

const [appId, key, secret, above] = process.argv.slice(2);
// Encrypted channels are a matter between back end and client.
const encryptionMasterKeyBase64 = Buffer.alloc(32, 'k').toString('base64');
const tell = (event, fields = {}) =>
  process.stdout.write(JSON.stringify({ event, ...fields }) + '\n');

let client;
let backend;
let echo;

// Names of the events that the package makes of the protocol's own.
const own = {
  'pusher:subscription_succeeded': 'subscribed',
  'pusher:subscription_error': 'refused',
  'pusher:cache_miss': 'missed',
  'pusher:subscription_count': 'counted',
  'pusher:member_added': 'added',
  'pusher:member_removed': 'removed',
};

// What another back end has signed, by the channel; for a sign-in by the empty name.
const signed = new Map();

function follow(name) {
  if (echo) return follow_echo(name);
  client.subscribe(name).bind_global((event, data) =>
    tell(own[event] ?? 'publication', { channel: name, name: event, data }),
  );
}

// Echo has names without the prefix, and a dot before events that are no classes of PHP.
function follow_echo(name) {
  const [, kind, plain] = name.match(/^(private-encrypted-|private-|presence-|)(.*)$/);
  const joins = {
    '': 'channel',
    'private-': 'private',
    'private-encrypted-': 'encryptedPrivate',
    'presence-': 'join',
  };
  const channel = echo[joins[kind]](plain);
  // Of members it tells what is known of each.
  if (kind === 'presence-') {
    channel.here((data) => tell('subscribed', { channel: name, data }));
    channel.joining((data) => tell('added', { channel: name, data }));
    channel.leaving((data) => tell('removed', { channel: name, data }));
  } else {
    channel.subscribed(() => tell('subscribed', { channel: name }));
  }
  channel.error((data) => tell('refused', { channel: name, data }));
  channel.on('pusher:cache_miss', () => tell('missed', { channel: name }));
  channel.on('pusher:subscription_count', (data) => tell('counted', { channel: name, data }));
  channel.listenToAll((event, data) =>
    tell('publication', { channel: name, name: event.replace(/^\./, ''), data }),
  );
}

// Whether a package takes the signature; other requests than signed ones are none.
function isSigned(headers, rawBody, standard) {
  if (!('webhook-id' in headers) && !('x-pusher-key' in headers)) return false;
  if ('x-pusher-key' in headers) {
    const own = new Backend({ appId, key, secret, host: 'localhost' });
    if (!own.webhook({ headers, rawBody }).isValid()) return false;
  }
  if ('webhook-id' in headers) new Webhook(standard).verify(rawBody, headers);
  return true;
}

function serve(answer, at = 0) {
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    answer(request, response, Buffer.concat(chunks).toString());
  });
  server.listen(at, '127.0.0.1', () => tell('listening', { port: server.address().port }));
}

const BUNDLE = './node_modules/pusher-js/dist/web/pusher-with-encryption.js';
let status = 200;
let seen = new Set();

const orders = {
  receive({ standard, port }) {
    serve((request, response, rawBody) => {
      response.statusCode = isSigned(request.headers, rawBody, standard) ? status : 400;
      // A batch that was taken before is not told again.
      const id = request.headers['webhook-id'] ?? request.headers['x-pusher-signature'];
      if (response.statusCode !== 200) tell('held', { status: response.statusCode });
      else if (!seen.has(id)) {
        const { events } = JSON.parse(rawBody);
        events.forEach(({ event: sent, ...fields }, at) =>
          tell('told', { sent, mark: `${id} ${at}`, ...fields }),
        );
      }
      seen.add(response.statusCode === 200 ? id : '');
      response.end();
    }, port);
  },
  // A page with pusher-js, as browsers have it, and what signs for it.
  site() {
    const script = readFileSync(new URL(BUNDLE, import.meta.url));
    serve(({ url }, response, body) => {
      if (url === '/pusher.js') return response.end(script);
      const { socket_id, channel_name, user } = Object.fromEntries(new URLSearchParams(body));
      const member = { user_id: user, user_info: { name: user } };
      if (url === '/channel') {
        const signed = backend.authorizeChannel(
          socket_id,
          channel_name,
          channel_name.startsWith('presence-') ? member : undefined,
        );
        return response.end(JSON.stringify(signed));
      }
      if (url === '/user') {
        return response.end(JSON.stringify(backend.authenticateUser(socket_id, { id: user })));
      }
      response.setHeader('Content-Type', 'text/html');
      response.end('<script src="/pusher.js"></script>');
    });
  },
  answer: (fields) => ({ status } = fields),
  connect({ url, user, info = { name: user }, watchlist }) {
    const { hostname: host, port, protocol } = new URL(url);
    const useTLS = protocol === 'https:';
    const app = { appId, key, secret, encryptionMasterKeyBase64 };
    backend = new Backend({ ...app, host, port, useTLS });
    const options = {
      cluster: '',
      wsHost: host,
      wsPort: Number(port),
      wssPort: Number(port),
      forceTLS: useTLS,
      enabledTransports: ['ws', 'wss'],
      channelAuthorization: {
        customHandler({ socketId, channelName }, done) {
          // A user who has signed in needs no data for each channel.
          const isMember = channelName.startsWith('presence-') && !client.user.user_data;
          const member = isMember ? { user_id: user, user_info: info } : undefined;
          const known = signed.get(channelName);
          done(null, known ?? backend.authorizeChannel(socketId, channelName, member));
        },
      },
      userAuthentication: {
        customHandler: ({ socketId }, done) =>
          done(null, signed.get('') ?? backend.authenticateUser(socketId, { id: user, watchlist })),
      },
    };
    if (above === 'echo') {
      echo = new Echo({ broadcaster: 'reverb', key, Pusher, ...options });
      client = echo.connector.pusher;
    } else {
      client = new Pusher(key, options);
    }
    const { connection } = client;
    connection.bind('connected', () => tell('connected', { id: connection.socket_id }));
    connection.bind('state_change', ({ current }) => tell('state', { state: current }));
    connection.bind('error', ({ error, data }) => tell('error', data ?? error?.data));
    client.bind('pusher:signin_success', ({ user_data }) => tell('signed_in', { user_data }));
    client.user.bind_global((name, data) => tell('noted', { name, data }));
    client.user.watchlist.bind_global((name, { user_ids }) => tell(name, { user_ids }));
  },
  subscribe({ channel, answer }) {
    if (answer) signed.set(channel, answer);
    follow(channel);
  },
  unsubscribe: ({ channel }) => (echo ? echo.leaveChannel(channel) : client.unsubscribe(channel)),
  send({ channel, name, data }) {
    if (!echo) return void client.channel(channel).trigger(name, data);
    echo.connector.channels[channel].whisper(name.replace('client-', ''), data);
  },
  signin({ answer }) {
    if (answer) signed.set('', answer);
    client.signin();
  },
  leave: () => client.disconnect(),
  come: () => client.connect(),
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
