// What a browser's own log says of HTTP/2: node netlog.mjs FILE HOST:PORT
// Each order on standard input reads it anew, and tells the connections that the browser made
// there, with the requests and WebSockets on each.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [file, host] = process.argv.slice(2);

// The browser may still be writing: an event is a line, and the last one may be there in part.
const read = () => {
  const lines = readFileSync(file, 'utf8').split('\n');
  const { logEventTypes: types } = JSON.parse(lines[0].replace(/,\s*$/, '}')).constants;
  const sessions = new Map();
  for (const line of lines.slice(1)) {
    let event;
    try {
      event = JSON.parse(line.replace(/(,|\],?)\s*$/, ''));
    } catch {
      continue;
    }
    const { type, source, params } = event;
    if (type === types.HTTP2_SESSION && params?.host === host) {
      sessions.set(source.id, { requests: 0, sockets: 0 });
    }
    const session = sessions.get(source?.id);
    if (session && type === types.HTTP2_SESSION_SEND_HEADERS) {
      const isSocket = params.headers.some((field) => field.startsWith(':protocol: websocket'));
      session[isSocket ? 'sockets' : 'requests'] += 1;
    }
  }
  return [...sessions.values()];
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id } = JSON.parse(line);
  process.stdout.write(JSON.stringify({ event: 'done', id, sessions: read() }) + '\n');
}
