// A back end with Pusher's package for Node: it signs for the page's clients, and publishes on a
// change. Laravel does the same (docs/PUSHER.md).
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { fileURLToPath } from 'node:url'
import Pusher from 'pusher'

const CLIENTS = process.env.THRONG_CLIENTS ?? '127.0.0.1:8000'
const APP = process.env.PUSHER_APP ?? 'example'
const KEY = process.env.PUSHER_KEY ?? 'an-example-key-of-an-app'
const SECRET = process.env.PUSHER_SECRET ?? 'an-example-secret-that-everyone-knows'

const [host, port] = CLIENTS.split(':')
const pusher = new Pusher({ appId: APP, key: KEY, secret: SECRET, host, port, useTLS: false })
const messages = []

const file = (path) => readFile(fileURLToPath(new URL(path, import.meta.url)))
const packaged = (path) => file(`node_modules/${path}`)
const json = (value) => ['application/json', JSON.stringify(value)]

async function body(request) {
  let text = ''
  for await (const chunk of request) {
    text += chunk
    if (text.length > 16_384) throw new Error('too long')
  }
  return text
}

const pages = {
  'GET /': async () => ['text/html', await file('index.html')],
  'GET /pusher.js': async () => ['text/javascript', await packaged('pusher-js/dist/web/pusher.js')],
  'GET /echo.js': async () => ['text/javascript', await packaged('laravel-echo/dist/echo.iife.js')],
  'GET /settings': async () => json({ key: KEY, host, port: Number(port) }),
  'GET /messages': async () => json(messages),

  async 'POST /messages'(request) {
    const { user, text } = JSON.parse(await body(request))
    const message = { id: messages.length + 1, user: String(user), text: String(text) }
    messages.push(message)
    // The page that sent it gets it, too; `socket_id` in the options would leave it out.
    await pusher.trigger('presence-room', 'message', message)
    return json(message)
  },

  // Echo asks whether this connection may join. A real back end reads the user from its session.
  async 'POST /broadcasting/auth'(request) {
    const form = new URLSearchParams(await body(request))
    const [socket, channel] = [form.get('socket_id'), form.get('channel_name')]
    const user = request.headers['x-user']
    if (!user || channel !== 'presence-room') return null
    const member = { user_id: user, user_info: { name: user } }
    return json(pusher.authorizeChannel(socket, channel, member))
  },
}

const server = createServer(async (request, response) => {
  const { pathname } = new URL(request.url, 'http://localhost')
  try {
    const page = pages[`${request.method} ${pathname}`]
    const answer = page ? await page(request) : undefined
    if (!answer) return response.writeHead(page ? 403 : 404).end()
    response.writeHead(200, { 'Content-Type': answer[0] }).end(answer[1])
  } catch (error) {
    console.error(error)
    response.writeHead(500).end()
  }
})
server.listen(process.env.PORT ?? 3000, '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${server.address().port}/`)
})
