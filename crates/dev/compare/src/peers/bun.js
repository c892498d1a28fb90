// A push server in Bun: what Bun.serve does by itself, and no more JavaScript than that needs.

const channelOf = (url) => url.slice(url.indexOf("channel=") + "channel=".length);

Bun.serve({
  hostname: "127.0.0.1",
  port: Number(process.argv[2]),
  idleTimeout: 0,
  async fetch(request, server) {
    const channel = channelOf(request.url);
    if (request.method === "POST") {
      server.publish(channel, await request.text());
      return new Response();
    }
    if (server.upgrade(request, { data: channel })) {
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
