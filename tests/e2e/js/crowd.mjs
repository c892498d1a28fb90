// Many clients of the npm package `centrifuge` in one process, steered by lines of JSON on standard
// input: node crowd.mjs
// Each has one subscription. Every connection goes to the next node of a list, whether that lives
// or not, as behind a balancer that knows nothing. Publications are numbers that count up from 1 in
// each channel; what a client misses or hears twice is counted.
//   nodes URLS                 where clients connect from now on
//   come FROM COUNT CHANNELS   clients with these numbers come, each to the channel that its number
//                              chooses among the list, and all have subscribed
//   go FROM COUNT              these clients leave for good
//   mark                       counts anew, from this moment on
//   settle COUNT               waits a while until so many have come back since the mark and nobody
//                              is away; tells how many are, and what was counted
//   heard NUMBER               all that are here have heard this number; tells what was counted
//   members CHANNEL            the names of those who are there
import { createInterface } from 'node:readline';
import { Centrifuge } from 'centrifuge';
import WebSocket from 'ws';

const tell = (event, fields = {}) =>
  process.stdout.write(JSON.stringify({ event, ...fields }) + '\n');

let nodes = [];
let turn = 0;
let counts;
const mark = () => {
  counts = { at: performance.now(), tries: 0, back: [] };
  Object.assign(counts, { recovered: 0, refused: 0, lost: 0, doubled: 0 });
};
mark();

class Balanced extends WebSocket {
  constructor() {
    counts.tries += 1;
    super(nodes[turn++ % nodes.length], { perMessageDeflate: false });
  }
}

class Member {
  isIn = false;
  last = 0;

  constructor(channel) {
    this.channel = channel;
    this.client = new Centrifuge('ws://a.node', { websocket: Balanced });
    this.client.on('connected', ({ client }) => (this.name = client));
    const sub = this.client.newSubscription(channel);
    sub.on('subscribing', () => (this.isIn = false));
    sub.on('subscribed', ({ wasRecovering, recovered }) => {
      this.isIn = true;
      counts.back.push(performance.now() - counts.at);
      if (wasRecovering) counts[recovered ? 'recovered' : 'refused'] += 1;
    });
    sub.on('publication', ({ data }) => {
      if (data <= this.last) counts.doubled += 1;
      else counts.lost += data - this.last - 1;
      this.last = Math.max(this.last, data);
    });
    sub.subscribe();
    this.client.connect();
  }
}

const members = new Map();
const everybody = async (fits, until = Infinity) => {
  while (![...members.values()].every(fits) && performance.now() < until) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};

// When clients were back, in milliseconds, and how many in the busiest tenth of a second.
const spread = () => {
  const times = counts.back.toSorted((a, b) => a - b).map(Math.round);
  const at = (part) => times[Math.min(times.length - 1, Math.floor(times.length * part))] ?? 0;
  const tenths = new Map();
  for (const time of times) {
    const tenth = Math.floor(time / 100);
    tenths.set(tenth, (tenths.get(tenth) ?? 0) + 1);
  }
  const busiest = Math.max(0, ...tenths.values());
  return { first: at(0), half: at(0.5), most: at(0.9), last: at(1), busiest };
};
const counted = () => {
  const { tries, recovered, refused, lost, doubled, back } = counts;
  return { tries, recovered, refused, lost, doubled, subscribed: back.length, ...spread() };
};
const numbers = ({ from, count }) => Array.from({ length: count }, (_, n) => from + n);

const orders = {
  nodes: async ({ urls }) => void (nodes = urls),
  come: async (order) => {
    for (const number of numbers(order)) {
      members.set(number, new Member(order.channels[number % order.channels.length]));
    }
    await everybody((member) => member.isIn);
  },
  go: async (order) => {
    for (const number of numbers(order)) {
      members.get(number).client.disconnect();
      members.delete(number);
    }
  },
  mark: async () => mark(),
  settle: async ({ count }) => {
    const are = (member) => member.isIn && counts.back.length >= count;
    await everybody(are, performance.now() + 10_000);
    const away = [...members.values()].filter((member) => !member.isIn).length;
    return { away, ...counted() };
  },
  heard: async ({ number }) => {
    await everybody((member) => member.isIn && member.last >= number);
    return counted();
  },
  members: async ({ channel }) => {
    const there = [...members.values()].filter((member) => member.channel === channel);
    return { clients: there.map((member) => member.name).toSorted() };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { order, id, ...fields } = JSON.parse(line);
  orders[order](fields).then((result) => tell('done', { id, ...result }));
}
process.exit(0);
