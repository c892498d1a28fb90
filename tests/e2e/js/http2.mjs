// One connection of Node's own client of HTTP/2: node http2.mjs URL AUTHORITIES [HEADER]
// The header, in hexadecimal digits, comes before everything else, as a proxy sends it.
// go/http2, java/Http2.java and python/http2_client.py take the orders `follow` and `ask` too, and
// tell the same of them. What happens is told in lines of JSON on standard output.
import { readFileSync } from 'node:fs';
import { connect } from 'node:http2';
import net from 'node:net';
import { createInterface } from 'node:readline';
import tls from 'node:tls';
import WebSocket from 'ws';

const tell = (event, fields = {}) =>
  process.stdout.write(JSON.stringify({ event, ...fields }) + '\n');
const [url, authorities, header] = process.argv.slice(2);
const ca = readFileSync(authorities);
const proxied = ({ protocol, hostname, port }) => {
  const socket = net.connect(port, hostname);
  socket.write(Buffer.from(header, 'hex'));
  const secure = { socket, ca, host: hostname, ALPNProtocols: ['h2'] };
  return protocol === 'https:' ? tls.connect(secure) : socket;
};
const session = connect(url, { ca, createConnection: header && proxied });
session.on('goaway', (code) => tell('goaway', { code }));
session.on('close', () => tell('close'));
session.on('error', (error) => tell('error', { message: error.message }));
const settings = new Promise((resolve) => session.on('remoteSettings', resolve));

// A request on a stream of the connection.
const begin = (fields, body) => {
  const stream = session.request(fields, { endStream: body === undefined && !fields[':protocol'] });
  stream.on('error', (error) => tell('error', { message: error.message }));
  if (body !== undefined) stream.end(body);
  return stream;
};

const orders = {
  // Tells each line of an answer that does not end.
  follow: ({ target }) => {
    const stream = begin({ ':path': target });
    stream.on('response', (head) => tell('open', { status: head[':status'], version: 2 }));
    createInterface({ input: stream }).on('line', (text) => tell('line', { text }));
    stream.on('end', () => tell('ended', { target }));
  },
  // On this connection, whatever port a URL names.
  ask: ({ id, method, target, body }) => {
    const stream = begin({ ':method': method, ':path': target }, body);
    let status;
    let told = '';
    stream.on('response', (head) => (status = head[':status']));
    stream.setEncoding('utf8');
    stream.on('data', (part) => (told += part));
    stream.on('end', () => tell('done', { id, status, body: told, version: 2 }));
  },
  // A WebSocket by extended CONNECT (RFC 8441).
  socket: async ({ name, target }) => {
    const { enableConnectProtocol } = await settings;
    const fields = { ':method': 'CONNECT', ':protocol': 'websocket', ':path': target };
    const stream = begin({ ...fields, 'sec-websocket-version': '13' });
    stream.on('response', (head) => {
      tell('opened', { name, status: head[':status'], enableConnectProtocol });
      if (head[':status'] !== 200) return;
      // The package `ws` speaks on any stream; on those of clients it masks.
      const ws = new WebSocket(null, undefined, { autoPong: true });
      ws._isServer = false;
      ws.setSocket(stream, Buffer.alloc(0), { allowSynchronousEvents: true, maxPayload: 1 << 24 });
      ws.on('message', (data) => tell('message', { name, data: data.toString() }));
      ws.on('close', (code) => tell('left', { name, code }));
      sockets[name] = ws;
    });
  },
  send: ({ name, text }) => sockets[name].send(text),
};
const sockets = {};

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  orders[order.order](order);
}
process.exit(0);
