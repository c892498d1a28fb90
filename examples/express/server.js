// A back end for Throng with Express: it issues tokens, and publishes on a change.
import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import express from 'express'
import jwt from 'jsonwebtoken'

const SECRET = process.env.THRONG_SECRET ?? 'an-example-secret-that-everyone-knows'
const KEY = process.env.THRONG_KEY ?? 'an-example-key-that-everyone-knows'
const API = process.env.THRONG_API ?? 'http://127.0.0.1:8001'
const CLIENTS = process.env.THRONG_CLIENTS ?? '127.0.0.1:8000'
const EXAMPLES = process.env.EXAMPLES ?? fileURLToPath(new URL('..', import.meta.url))
const CHAT = process.env.CHAT ?? `${EXAMPLES}/chat/dist`

const STAFF = new Set(['ann', 'carol'])
const scores = { reds: 0, blues: 0 }

async function publish(channel, data) {
  const answer = await fetch(`${API}/api/publish`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-API-Key': KEY },
    // The key makes a repeated request harmless.
    body: JSON.stringify({ channel, data, idempotency_key: randomUUID() }),
  })
  const body = await answer.json()
  if (!answer.ok || body.error) throw new Error(`publish: ${answer.status} ${body.error?.message}`)
}

const app = express()
app.use(express.json({ limit: '16kb' }))

// A real back end reads the user from its own session.
app.get('/token', (request, response) => {
  const { user, channel } = request.query
  if (typeof user !== 'string' || !user) return response.sendStatus(401)
  if (channel !== undefined && (channel !== '$team:staff' || !STAFF.has(user))) {
    return response.sendStatus(403)
  }
  const claims = channel === undefined ? { sub: user } : { sub: user, channel }
  response.type('text').send(jwt.sign(claims, SECRET, { expiresIn: '10m' }))
})

app.post('/messages', async (request, response) => {
  const { channel, user, text } = request.body ?? {}
  const mayWrite = channel === 'room:general' || (channel === '$team:staff' && STAFF.has(user))
  if (!mayWrite) return response.sendStatus(403)
  if (typeof text !== 'string' || !text.trim() || text.length > 500) return response.sendStatus(400)
  await publish(channel, { id: randomUUID(), user, text })
  response.sendStatus(204)
})

app.get('/scores', (request, response) => response.json(scores))

app.post('/scores', async (request, response) => {
  const { team, points } = request.body ?? {}
  if (!Object.hasOwn(scores, team) || !Number.isInteger(points)) return response.sendStatus(400)
  scores[team] += points
  await publish('board:scores', scores)
  response.json(scores)
})

app.get('/settings', (request, response) => response.json({ clients: CLIENTS }))
app.use('/chat', express.static(CHAT))
app.use('/board', express.static(`${EXAMPLES}/board`))

const server = app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${server.address().port}/`)
})
