// Centrifugo's services by gRPC, with the npm package `@grpc/grpc-js`: node grpc.mjs URL KEY
// Orders are lines of JSON with an `id`, a call and its `params`; what comes of each is told in a
// line of JSON. The order `consume` begins a stream at `address`, whose pushes and whose status are
// told. With a `timeout` in milliseconds an order has a deadline. The order `serve` begins a
// backend of `[proxy]`: what it is asked it asks the one at `url` in turn, by HTTP in JSON, and
// answers so; another status than 200 becomes one of gRPC. With a `certificate` and its `key` it
// speaks TLS. The order `leave` sends the backend's clients away, and ends it.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import grpc from '@grpc/grpc-js';
import { fromJSON } from '@grpc/proto-loader';

const [url, apiKey] = process.argv.slice(2);
const tell = (event, fields) => process.stdout.write(JSON.stringify({ event, ...fields }) + '\n');

// Messages as far as orders need them: fields with their types and numbers. `[]` is a list, `{}` a
// map from text.
const REQUESTS = {
  Nothing: {},
  Of: { channel: 'string 1' },
  Publish: { channel: 'string 1', data: 'bytes 2', tags: 'string{} 5' },
  Broadcast: { channels: 'string[] 1', data: 'bytes 2' },
  Subscribe: { channel: 'string 1', user: 'string 2', data: 'bytes 7' },
  Unsubscribe: { channel: 'string 1', user: 'string 2', client: 'string 3' },
  Disconnect: { user: 'string 1', disconnect: 'Reason 2' },
  Reason: { code: 'uint32 1', reason: 'string 2' },
  Refresh: { user: 'string 1', expire_at: 'int64 4' },
  Position: { offset: 'uint64 1', epoch: 'string 2' },
  History: { channel: 'string 1', limit: 'int32 2', since: 'Position 3', reverse: 'bool 4' },
  Channels: { pattern: 'string 1' },
  Command: { publish: 'Publish 4', history: 'History 11', info: 'Nothing 13' },
  Batch: { commands: 'Command[] 1' },
};
const RESULTS = {
  Empty: {},
  Error: { code: 'uint32 1', message: 'string 2' },
  Place: { offset: 'uint64 1', epoch: 'string 2' },
  Places: { responses: 'PlaceResponse[] 1' },
  Client: { user: 'string 1', client: 'string 2' },
  Present: { presence: 'Client{} 1' },
  Stats: { num_clients: 'uint32 1', num_users: 'uint32 2' },
  Item: { data: 'bytes 2', offset: 'uint64 4', tags: 'string{} 5' },
  Past: { publications: 'Item[] 1', epoch: 'string 2', offset: 'uint64 3' },
  Count: { num_clients: 'uint32 1' },
  Counts: { channels: 'Count{} 1' },
  Node: { uid: 'string 1', num_clients: 'uint32 4' },
  Nodes: { nodes: 'Node[] 1' },
};
const PUSHES = {
  Connect: { token: 'string 1', subs: 'Sub{} 3' },
  Sub: { recover: 'bool 3', epoch: 'string 6', offset: 'uint64 7' },
  Push: { channel: 'string 2', pub: 'Pub 4', connect: 'Connected 10', disconnect: 'Reason 11' },
  Pub: { data: 'bytes 4', offset: 'uint64 6', tags: 'string{} 7' },
  Connected: { client: 'string 1', subs: 'Subscribed{} 4', ping: 'uint32 7' },
  Subscribed: {
    recoverable: 'bool 3',
    epoch: 'string 6',
    publications: 'Pub[] 7',
    recovered: 'bool 8',
  },
};
const FROM = {
  client: 'string 1',
  transport: 'string 2',
  protocol: 'string 3',
  encoding: 'string 4',
};
const OF = { ...FROM, user: 'string 10', channel: 'string 11' };
const OPTIONS = { expire_at: 'int64 1', info: 'bytes 2', data: 'bytes 4', override: 'Override 6' };
const PROXY = {
  ConnectRequest: { ...FROM, data: 'bytes 10', name: 'string 12', channels: 'string[] 14' },
  RefreshRequest: { ...FROM, user: 'string 10', meta: 'bytes 11' },
  SubscribeRequest: { ...OF, token: 'string 12', meta: 'bytes 13', data: 'bytes 14' },
  PublishRequest: { ...OF, data: 'bytes 12', b64data: 'string 13', meta: 'bytes 14' },
  RPCRequest: {
    ...FROM,
    user: 'string 10',
    method: 'string 11',
    data: 'bytes 12',
    b64data: 'string 13',
    meta: 'bytes 14',
  },
  SubRefreshRequest: { ...OF, meta: 'bytes 12' },
  NotifyCacheEmptyRequest: { channel: 'string 1' },
  ConnectResult: {
    user: 'string 1',
    expire_at: 'int64 2',
    info: 'bytes 3',
    data: 'bytes 5',
    channels: 'string[] 7',
    subs: 'Options{} 8',
    meta: 'bytes 9',
  },
  RefreshResult: { expired: 'bool 1', expire_at: 'int64 2', info: 'bytes 3', meta: 'bytes 5' },
  SubscribeResult: { ...OPTIONS, allow: 'string[] 7' },
  PublishResult: { data: 'bytes 1', b64data: 'string 2', tags: 'string{} 4' },
  RPCResult: { data: 'bytes 1', b64data: 'string 2' },
  SubRefreshResult: { expired: 'bool 1', expire_at: 'int64 2' },
  NotifyCacheEmptyResult: {},
  Options: OPTIONS,
  Override: { presence: 'Flag 1' },
  Flag: { value: 'bool 1' },
  End: { code: 'uint32 1', reason: 'string 2' },
  Fault: { code: 'uint32 1', message: 'string 2', temporary: 'bool 3' },
};
const QUESTIONS = {
  Connect: 'connect',
  Refresh: 'refresh',
  Subscribe: 'subscribe',
  Publish: 'publish',
  RPC: 'rpc',
  SubRefresh: 'sub_refresh',
  NotifyCacheEmpty: 'cache_empty',
};
// Each call with its request and its result.
const CALLS = {
  Publish: ['Publish', 'Place'],
  Broadcast: ['Broadcast', 'Places'],
  Subscribe: ['Subscribe', 'Empty'],
  Unsubscribe: ['Unsubscribe', 'Empty'],
  Disconnect: ['Disconnect', 'Empty'],
  Refresh: ['Refresh', 'Empty'],
  Presence: ['Of', 'Present'],
  PresenceStats: ['Of', 'Stats'],
  History: ['History', 'Past'],
  HistoryRemove: ['Of', 'Empty'],
  Channels: ['Channels', 'Counts'],
  Info: ['Nothing', 'Nodes'],
};

const message = (fields) => {
  const described = Object.entries(fields).map(([name, text]) => {
    const [, type, many, id] = /^(\w+)(\[\]|\{\})? (\d+)$/.exec(text);
    const rule = many === '[]' ? { rule: 'repeated' } : {};
    const key = many === '{}' ? { keyType: 'string' } : {};
    return [name, { type, id: Number(id), ...rule, ...key }];
  });
  return { fields: Object.fromEntries(described) };
};
const nested = {};
for (const [name, fields] of Object.entries({ ...REQUESTS, ...RESULTS, ...PUSHES, ...PROXY })) {
  nested[name] = message(fields);
}
const methods = {};
for (const [name, [request, result]] of Object.entries(CALLS)) {
  nested[`${result}Response`] = message({ error: 'Error 1', result: `${result} 2` });
  methods[name] = { requestType: request, responseType: `${result}Response` };
}
nested.Reply = message({
  error: 'Error 2',
  publish: 'Place 4',
  history: 'Past 11',
  info: 'Nodes 13',
});
nested.Replies = message({ replies: 'Reply[] 1' });
methods.Batch = { requestType: 'Batch', responseType: 'Replies' };
methods.Connections = { requestType: 'Nothing', responseType: 'Empty' };
methods.MapPublish = { requestType: 'Nothing', responseType: 'Empty' };
const consume = { requestType: 'Connect', responseType: 'Push', responseStream: true };
const asked = {};
for (const name of Object.keys(QUESTIONS)) {
  nested[`${name}Response`] = message({
    result: `${name}Result 1`,
    error: 'Fault 2',
    disconnect: 'End 3',
  });
  asked[name] = { requestType: `${name}Request`, responseType: `${name}Response` };
}
const within = (names, inner) =>
  names.reduceRight((nested, name) => ({ nested: { [name]: nested } }), inner).nested;
const load = (kind, service, calls, defaults = true) => {
  const options = { keepCase: true, longs: Number, defaults };
  const inner = { nested: { ...nested, [service]: { methods: calls } } };
  const root = { nested: within(['centrifugal', 'centrifugo', kind], inner) };
  return grpc.loadPackageDefinition(fromJSON(root, options)).centrifugal.centrifugo[kind][service];
};
const Api = load('api', 'CentrifugoApi', methods);
const Stream = load('unistream', 'CentrifugoUniStream', { Consume: consume });
const Proxy = load('proxy', 'CentrifugoProxy', asked, false);

// Data are JSON, in bytes.
const packed = (value, name) => {
  if (['data', 'info', 'meta'].includes(name)) return Buffer.from(JSON.stringify(value));
  if (Array.isArray(value)) return value.map((item) => packed(item));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, packed(item, key)]));
};
const unpacked = (value) => {
  if (Buffer.isBuffer(value)) return value.length ? JSON.parse(value) : null;
  if (Array.isArray(value)) return value.map(unpacked);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, unpacked(item)]));
};

const told = ({ channel, pub, connect, disconnect }) => {
  if (connect) tell('connected', connect);
  else if (pub) tell('publication', { channel, ...pub });
  else if (disconnect) tell('disconnected', disconnect);
  else tell('alive');
};

const ask = async (url, call, answer) => {
  const timed = call.getDeadline() < Infinity;
  const body = JSON.stringify({ ...unpacked(call.request), timed });
  const headers = call.metadata.getMap();
  const response = await fetch(url, { method: 'POST', headers, body });
  const { ok, status } = response;
  if (!ok) return answer({ code: grpc.status.NOT_FOUND, details: `status ${status}` });
  answer(null, packed(await response.json()));
};
let server;
const serve = ({ url, certificate, key, port = 0 }) => {
  server = new grpc.Server();
  const implemented = Object.entries(QUESTIONS).map(([name, path]) => {
    return [name, (call, answer) => ask(`${url}/${path}`, call, answer)];
  });
  server.addService(Proxy.service, Object.fromEntries(implemented));
  const pair = () => [{ cert_chain: readFileSync(certificate), private_key: readFileSync(key) }];
  const credentials = certificate
    ? grpc.ServerCredentials.createSsl(null, pair())
    : grpc.ServerCredentials.createInsecure();
  server.bindAsync(`localhost:${port}`, credentials, (fault, at) => tell('serving', { port: at }));
};

const plain = grpc.credentials.createInsecure();
const api = new Api(new URL(url).host, plain);
const deadline = (timeout) => (timeout === undefined ? {} : { deadline: Date.now() + timeout });
const camel = (name) => name.replace(/(^|_)(.)/g, (_, __, letter) => letter.toUpperCase());

for await (const line of createInterface({ input: process.stdin })) {
  const whole = JSON.parse(line);
  const { id, order, params, timeout, address, key = apiKey, mode } = whole;
  if (order === 'serve') {
    serve(whole);
    continue;
  }
  if (order === 'leave') {
    server.tryShutdown(() => tell('left'));
    continue;
  }
  if (order === 'consume') {
    const stream = new Stream(address, plain).Consume(packed(params), deadline(timeout));
    stream.on('data', (push) => told(unpacked(push)));
    stream.on('error', () => {});
    stream.on('status', ({ code, details }) => tell('status', { code, details }));
    continue;
  }
  const metadata = new grpc.Metadata();
  metadata.set('authorization', `apikey ${key}`);
  if (mode) metadata.set('x-centrifugo-error-mode', mode);
  const commands = Array.isArray(params)
    ? { commands: params.map(([name, command]) => ({ [name]: command })) }
    : params;
  api[camel(order)](packed(commands), metadata, deadline(timeout), (fault, response) => {
    const { code, message, details } = fault ?? response.error ?? {};
    if (code !== undefined) return tell('failed', { id, code, message: details ?? message });
    tell('done', { id, result: unpacked(response.result ?? response) });
  });
}
process.exit(0);
