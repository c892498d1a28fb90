// One browser with one version of npm `appwrite`, unmodified. Orders come in as lines of JSON, what
// happens goes out as lines of JSON. node sdk.mjs PACKAGE client|realtime
import { createRequire } from 'node:module';
import readline from 'node:readline';
import WebSocket from 'ws';

const [name, api] = process.argv.slice(2);
const tell = (event) => process.stdout.write(`${JSON.stringify(event)}\n`);

// What a page has and Node has not. What a browser sends by itself comes from the `open` order.
const stored = new Map();
const localStorage = {
  getItem: (key) => stored.get(key) ?? null,
  setItem: (key, value) => stored.set(key, String(value)),
  removeItem: (key) => stored.delete(key),
};
const sent = { origin: undefined, headers: {} };

class BrowserSocket extends WebSocket {
  constructor(url, protocols) {
    super(url, protocols, { origin: sent.origin, headers: sent.headers });
    tell({ event: 'socket', url: String(url) });
    this.on('message', (data) => tell({ event: 'frame', frame: JSON.parse(String(data)) }));
    this.on('close', (code) => tell({ event: 'closed', code }));
    this.on('error', () => {});
  }

  send(data, ...rest) {
    tell({ event: 'sent', frame: JSON.parse(String(data)) });
    super.send(data, ...rest);
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
    const heard = ({ payload, channels }) => tell({ event: 'event', as, payload, channels });
    // Versions without queries are not given an argument that they do not know.
    const queries = status ? [[sdk.Query.equal('status', [status])]] : [];
    const from = realtime ?? client;
    open.set(as, await from.subscribe(channels, heard, ...queries));
  },
  async presence(presence) {
    delete presence.order;
    await realtime.upsertPresence(presence);
  },
  errors() {
    realtime.onError((error, code) => tell({ event: 'error', code, message: error.message }));
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
