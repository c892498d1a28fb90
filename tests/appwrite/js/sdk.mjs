// One browser with one version of npm `appwrite`, unmodified. Orders come in as lines of JSON, what
// happens goes out as lines of JSON. node sdk.mjs PACKAGE client|realtime url|message
//
// A frame is told by its type, with the number of its socket, its code and message, and the user's
// id; `subscribed` is told when the server has what was subscribed, which versions send in the URL
// or by message; `heard` is an event as the page gets it, with the id of what it is about.
import { createRequire } from 'node:module';
import readline from 'node:readline';
import WebSocket from 'ws';

const [name, api, way] = process.argv.slice(2);
const tell = (event) => process.stdout.write(`${JSON.stringify(event)}\n`);

// What a page has and Node has not. What a browser sends by itself comes from the `open` order.
const stored = new Map();
const localStorage = {
  getItem: (key) => stored.get(key) ?? null,
  setItem: (key, value) => stored.set(key, String(value)),
  removeItem: (key) => stored.delete(key),
};
const sent = { origin: undefined, headers: {} };

let sockets = 0;

function tellFrame(frame, socket) {
  const { code, message, to, user, presence, subscriptions } = frame.data ?? {};
  tell({ event: frame.type, socket, code, message, to, user: user?.$id ?? null, presence });
  if (way === 'url' ? frame.type === 'connected' : to === 'subscribe') {
    tell({ event: 'subscribed', socket, channels: subscriptions?.[0]?.channels });
  }
}

class BrowserSocket extends WebSocket {
  constructor(url, protocols) {
    super(url, protocols, { origin: sent.origin, headers: sent.headers });
    sockets += 1;
    const socket = sockets;
    this.on('message', (data) => tellFrame(JSON.parse(String(data)), socket));
    this.on('close', (code) => tell({ event: 'closed', code }));
    this.on('error', () => {});
  }
}

// The SDK speaks to people here; standard output is for the test.
console.log = console.error;
globalThis.WebSocket = BrowserSocket;
globalThis.localStorage = localStorage;
globalThis.window = {
  localStorage, console, setTimeout, clearTimeout, setInterval, clearInterval,
  WebSocket: BrowserSocket,
};

const sdk = createRequire(import.meta.url)(name);
const client = new sdk.Client();
const realtime = api === 'realtime' ? new sdk.Realtime(client) : undefined;
const open = new Map();

const orders = {
  open({ endpoint, project, origin, cookie, fallback, jwt }) {
    client.setEndpoint(`http://${endpoint}/v1`).setProject(project);
    // Old versions derive it from the endpoint only if that is Appwrite's cloud.
    client.setEndpointRealtime?.(`ws://${endpoint}/v1`);
    sent.origin = origin;
    if (cookie) sent.headers.cookie = cookie;
    if (fallback) localStorage.setItem('cookieFallback', JSON.stringify(fallback));
    if (jwt) client.setJWT(jwt);
  },
  async subscribe({ as, channels, status }) {
    const heard = ({ payload }) => tell({ event: 'heard', as, id: payload.$id });
    // Versions without queries are not given an argument that they do not know.
    const queries = status ? [[sdk.Query.equal('status', [status])]] : [];
    const from = realtime ?? client;
    open.set(as, await from.subscribe(channels, heard, ...queries));
  },
  async presence(presence) {
    delete presence.order;
    delete presence.id;
    await realtime.upsertPresence(presence);
  },
  errors() {
    realtime.onError((error, code) => tell({ event: 'failure', code, message: error.message }));
  },
  async unsubscribe({ as }) {
    const subscription = open.get(as);
    open.delete(as);
    await (realtime ? subscription.close() : subscription());
  },
};

for await (const line of readline.createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  // A subscription whose socket is refused is never done, and the next order need not wait for it.
  const done = Promise.resolve(orders[order.order](order));
  done.catch((error) => tell({ event: 'failed', error: String(error) }));
}
process.exit(0);
