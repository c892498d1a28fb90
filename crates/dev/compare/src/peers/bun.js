// A push server in Bun: what Bun.serve does by itself, and no more JavaScript than that needs.

// With TLS, publications come by a port of their own.
const [port, publishPort, certificate, key] = process.argv.slice(2);

const channelOf = (url) => url.slice(url.indexOf("channel=") + "channel=".length);

const publish = async (request) => {
  server.publish(channelOf(request.url), await request.text());
  return new Response();
};

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: Number(port),
  tls: certificate && { cert: Bun.file(certificate), key: Bun.file(key) },
  idleTimeout: 0,
  async fetch(request, server) {
    if (request.method === "POST") {
      return publish(request);
    }
    if (server.upgrade(request, { data: channelOf(request.url) })) {
      return undefined;
    }
    return new Response("A WebSocket is expected here.", { status: 426 });
  },
  websocket: {
    perMessageDeflate: false,
    idleTimeout: 0,
    sendPings: false,
    open(socket) {
      socket.subscribe(socket.data);
    },
    message() {},
  },
});

if (publishPort) {
  Bun.serve({ hostname: "127.0.0.1", port: Number(publishPort), idleTimeout: 0, fetch: publish });
}
