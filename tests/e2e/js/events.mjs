// One EventSource of the npm package `eventsource`: node events.mjs URL
// What happens to it is told in lines of JSON on standard output, in the order in which it happens.
// It connects again by itself, with the id of the last event. The order `to URL` on standard input
// makes another one, which begins with that id, as a page does that is given another server.
import { createInterface } from 'node:readline';
import EventSource from 'eventsource';

const tell = (event, fields = {}) =>
  process.stdout.write(JSON.stringify({ event, ...fields }) + '\n');

let last = '';
const follow = (url) => {
  const source = new EventSource(url, last ? { headers: { 'Last-Event-ID': last } } : {});
  const hear = (event, fields = {}) => {
    if (event.lastEventId) last = event.lastEventId;
    return { id: event.lastEventId, ...fields };
  };
  source.onopen = () => tell('open');
  source.onerror = ({ status }) => tell('error', { status });
  source.onmessage = (event) => tell('publication', hear(event, { data: JSON.parse(event.data) }));
  source.addEventListener('subscribed', (event) => {
    tell('subscribed', hear(event, { told: JSON.parse(event.data) }));
  });
  source.addEventListener('disconnect', (event) => {
    tell('disconnect', hear(event, { told: JSON.parse(event.data) }));
  });
  return source;
};
let source = follow(process.argv[2]);

for await (const line of createInterface({ input: process.stdin })) {
  const [, url] = line.split(' ');
  source.close();
  source = follow(url);
}
process.exit(0);
