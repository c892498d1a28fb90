// One WebSocket of the npm package `ws`: node ws.mjs URL [OPTION]...
//   no-pong           does not answer pings
//   origin=ORIGIN     says that it comes from a page of that origin
//   protocol=NAME     offers this subprotocol
//   key=KEY           sends this key as `X-API-Key`
//   no-deflate        does not offer compression
// Orders on standard input, one a line: `send TEXT`, `json STRING` (sends what the string holds),
// `binary TEXT`, `pause`, `resume`, `close`,
// `cut`, `bytes` (tells how many the connection has brought).
import { createInterface } from 'node:readline';
import WebSocket from 'ws';

const tell = (event, fields = {}) =>
  process.stdout.write(JSON.stringify({ event, ...fields }) + '\n');
const [url, ...options] = process.argv.slice(2);
const option = (name) =>
  options.find((option) => option.startsWith(name + '='))?.slice(name.length + 1);

const headers = option('key') ? { 'X-API-Key': option('key') } : {};
const ws = new WebSocket(url, option('protocol') ?? [], {
  autoPong: !options.includes('no-pong'),
  origin: option('origin'),
  headers,
  perMessageDeflate: !options.includes('no-deflate'),
});
ws.on('open', () => tell('open', { extensions: ws.extensions }));
ws.on('message', (data, binary) => tell('message', { data: data.toString(), binary }));
ws.on('ping', (data) => tell('ping', { data: data.toString() }));
ws.on('pong', (data) => tell('pong', { data: data.toString() }));
ws.on('close', (code, reason) => tell('close', { code, reason: reason.toString() }));
ws.on('error', (error) => tell('error', { message: error.message }));

const orders = {
  send: (text) => ws.send(text),
  json: (text) => ws.send(JSON.parse(text)),
  binary: (text) => ws.send(Buffer.from(text)),
  ping: (text) => ws.ping(text),
  pause: () => {
    ws.pause();
    tell('paused');
  },
  resume: () => ws.resume(),
  close: () => ws.close(1000),
  cut: () => ws.terminate(),
  bytes: () => tell('bytes', { read: ws._socket.bytesRead }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const [order, ...words] = line.split(' ');
  orders[order](words.join(' '));
}
process.exit(0);
