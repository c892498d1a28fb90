import { Centrifuge, UnauthorizedError } from 'centrifuge'
import { useEffect, useState } from 'react'
import { createRoot } from 'react-dom/client'
import './chat.css'

const user = new URLSearchParams(location.search).get('user') ?? 'guest'

// A token for the connection, or for one channel. 403 means: do not ask again.
async function token(channel) {
  const query = new URLSearchParams(channel ? { user, channel } : { user })
  const answer = await fetch(`/token?${query}`)
  if (answer.status === 403) throw new UnauthorizedError('not a member')
  if (!answer.ok) throw new Error(`/token: ${answer.status}`)
  return answer.text()
}

function useRoom(client, channel, options) {
  const [room, setRoom] = useState({ state: 'waiting', messages: [], people: {} })
  useEffect(() => {
    const change = (next) => setRoom((room) => ({ ...room, ...next(room) }))
    const sub = client.newSubscription(channel, options)
    const add = (data) => change(({ messages }) => ({ messages: [...messages, data].slice(-200) }))
    sub.on('publication', ({ data }) => add(data))
    sub.on('join', ({ info }) => change(({ people }) => ({
      people: { ...people, [info.client]: info.user },
    })))
    sub.on('leave', ({ info }) => change(({ people }) => {
      const { [info.client]: gone, ...rest } = people
      return { people: rest }
    }))
    sub.on('subscribed', async ({ recovered }) => {
      change(() => ({ state: 'live' }))
      if (!recovered) {
        const { publications } = await sub.history({ limit: 100 })
        const old = publications.map(({ data }) => data)
        const isNew = ({ id }) => old.every((known) => known.id !== id)
        change(({ messages }) => ({ messages: [...old, ...messages.filter(isNew)] }))
      }
      // The list is what counts; joins and leaves only keep it fresh.
      const { clients } = await sub.presence().catch(() => ({ clients: {} }))
      const people = Object.values(clients).map(({ client, user }) => [client, user])
      change(() => ({ people: Object.fromEntries(people) }))
    })
    sub.on('subscribing', () => change(() => ({ state: 'waiting' })))
    sub.on('unsubscribed', () => change(() => ({ state: 'closed' })))
    sub.subscribe()
    return () => client.removeSubscription(sub)
  }, [client, channel])
  return room
}

function Room({ client, channel, options }) {
  const { state, messages, people } = useRoom(client, channel, options)
  const [text, setText] = useState('')
  if (state === 'closed') return null
  const send = async (event) => {
    event.preventDefault()
    await fetch('/messages', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ channel, user, text }),
    })
    setText('')
  }
  const names = [...new Set(Object.values(people))].sort()
  return (
    <section data-channel={channel} data-state={state}>
      <h2>{channel}</h2>
      {names.length > 0 && <p className="people">Here: {names.join(', ')}</p>}
      <ol>
        {messages.map((message) => (
          <li key={message.id}><b>{message.user}</b> {message.text}</li>
        ))}
      </ol>
      <form onSubmit={send}>
        <input
          aria-label={`Message to ${channel}`}
          placeholder="Message"
          value={text}
          onChange={({ target }) => setText(target.value)}
        />
        <button disabled={!text.trim()}>Send</button>
      </form>
    </section>
  )
}

const staff = { getToken: ({ channel }) => token(channel) }

function Chat({ client }) {
  return (
    <main>
      <h1>Chat</h1>
      <p>You are {user}.</p>
      <Room client={client} channel="room:general" />
      <Room client={client} channel="$team:staff" options={staff} />
    </main>
  )
}

const { clients } = await (await fetch('/settings')).json()
const client = new Centrifuge(`ws://${clients}/connection/websocket`, { getToken: () => token() })
client.connect()
createRoot(document.getElementById('root')).render(<Chat client={client} />)
