// The clients of a soak: node clients.mjs PORT CLIENTS CHANNELS FOLDER
//
// Packages of other people, from FOLDER/node_modules: `centrifuge` by JSON and Protobuf WebSockets,
// HTTP streaming and SSE, and `eventsource`. Each client follows two channels, and knows by the
// numbers in publications what it should hear next. Now and then one leaves for a moment and comes
// back to its place, or begins anew. Orders on standard input: a line of JSON like
// `{"channel": last, …}` asks whether everybody has heard everything up to there. What was counted
// goes out as a line of JSON each second.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [port, count, channels, folder] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const EventSource = require('eventsource');
const WebSocket = require('ws');
const builds = { json: require('centrifuge'), protobuf: require('centrifuge/build/protobuf') };

const BACK_MS = { minReconnectDelay: 50, maxReconnectDelay: 500 };
const counted = { heard: 0, lost: 0, double: 0, told: 0, recovered: 0, opened: 0 };
const failures = [];

const fail = (kind, place, number) => {
  counted[kind] += 1;
  if (failures.length === 20) return;
  failures.push(`${place.who} ${place.channel}: ${kind} ${number} after ${place.last}`);
};

// Where one client stands in one channel.
class Place {
  constructor(who, channel) {
    Object.assign(this, { who, channel });
    this.begin();
  }

  begin() {
    this.last = null;
    this.isTold = false;
  }

  // The server has said whether nothing is missing.
  subscribed(wasRecovering, recovered) {
    if (wasRecovering && recovered) counted.recovered += 1;
    if (wasRecovering && !recovered) {
      counted.told += 1;
      this.isTold = true;
    }
  }

  hear({ n }) {
    counted.heard += 1;
    if (this.last !== null && !this.isTold) {
      if (n <= this.last) return fail('double', this, n);
      if (n > this.last + 1) fail('lost', this, n);
    }
    this.isTold = false;
    this.last = n;
  }
}

const places = [];
const follow = (who, nth) => {
  const names = [nth % channels, (nth * 7 + 1) % channels].map((n) => `chat:${n}`);
  const own = [...new Set(names)].map((name) => new Place(who, name));
  places.push(...own);
  return own;
};

const sdk = (nth, build, transport) => {
  const { Centrifuge } = builds[build];
  const http = `http://127.0.0.1:${port}`;
  const endpoint = transport
    ? [{ transport, endpoint: `${http}/connection/${transport}` }]
    : `ws://127.0.0.1:${port}/connection/websocket`;
  const read = (data) => (build === 'json' ? data : JSON.parse(new TextDecoder().decode(data)));
  const own = follow(`${build} ${transport ?? 'websocket'} ${nth}`, nth);
  const open = () => {
    counted.opened += 1;
    const client = new Centrifuge(endpoint, {
      websocket: WebSocket,
      eventsource: EventSource,
      emulationEndpoint: `${http}/emulation`,
      timeout: 20_000,
      ...BACK_MS,
    });
    for (const place of own) {
      place.begin();
      const sub = client.newSubscription(place.channel, {
        minResubscribeDelay: BACK_MS.minReconnectDelay,
        maxResubscribeDelay: BACK_MS.maxReconnectDelay,
      });
      sub.on('subscribed', (ctx) => place.subscribed(ctx.wasRecovering, ctx.recovered));
      sub.on('publication', (ctx) => place.hear(read(ctx.data)));
      sub.subscribe();
    }
    client.connect();
    return client;
  };
  let client = open();
  return {
    leave: () => client.disconnect(),
    comeBack: () => client.connect(),
    beginAnew: () => {
      // Nothing of what the old one still says is counted.
      for (const sub of Object.values(client.subscriptions())) sub.removeAllListeners();
      client.disconnect();
      client = open();
    },
  };
};

const source = (nth) => {
  const own = follow(`eventsource ${nth}`, nth).slice(0, 1);
  places.splice(places.indexOf(own[0]) + 1);
  const [place] = own;
  let last = '';
  let it;
  const open = () => {
    counted.opened += 1;
    const mine = new EventSource(`http://127.0.0.1:${port}/sse?channel=${place.channel}`, {
      headers: last ? { 'Last-Event-ID': last } : {},
    });
    mine.reconnectInterval = 200;
    const hear = (act) => (event) => {
      if (mine !== it) return;
      const before = last;
      if (event.lastEventId) last = event.lastEventId;
      act(event, before);
    };
    it = mine;
    mine.onerror = ({ status }) => {
      // The package gives up at an answer like 503; a page's code would try again.
      if (mine === it && mine.readyState === EventSource.CLOSED) {
        setTimeout(() => mine === it && open(), 500);
      }
      if (status && status < 500) failures.push(`${place.who}: ${status}`);
    };
    mine.onmessage = hear((event) => place.hear(JSON.parse(event.data)));
    mine.addEventListener('subscribed', hear((event, before) => {
      place.subscribed(before !== '', JSON.parse(event.data).recovered);
    }));
  };
  open();
  return {
    leave: () => it.close(),
    comeBack: open,
    beginAnew: () => {
      it.close();
      last = '';
      place.begin();
      open();
    },
  };
};

const kinds = [
  (nth) => sdk(nth, 'json'),
  (nth) => sdk(nth, 'protobuf'),
  (nth) => sdk(nth, 'json', 'http_stream'),
  (nth) => sdk(nth, 'json', 'sse'),
  (nth) => sdk(nth, 'protobuf', 'http_stream'),
  source,
];
const clients = [...Array(Number(count)).keys()].map((nth) => kinds[nth % kinds.length](nth));

// One after the other leaves for a moment; each third of them begins anew.
let turn = 0;
setInterval(() => {
  const client = clients[turn % clients.length];
  turn += 1;
  if (turn % 3 === 0) return client.beginAnew();
  client.leave();
  setTimeout(client.comeBack, 300);
}, 250).unref();

const tell = (more) =>
  process.stdout.write(`${JSON.stringify({ ...counted, failures, ...more })}\n`);
setInterval(() => tell({}), 1000).unref();

for await (const line of createInterface({ input: process.stdin })) {
  const ends = JSON.parse(line);
  const behind = places.filter(({ channel, last }) => last !== null && last !== ends[channel]);
  tell({ behind: behind.length, silent: places.filter(({ last }) => last === null).length });
}
process.exit(0);
