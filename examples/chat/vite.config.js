import react from '@vitejs/plugin-react'

const backEnd = 'http://127.0.0.1:3000'

export default {
  base: '/chat/',
  plugins: [react()],
  build: { target: 'es2022' },
  // `npm run dev`: the back end answers what is not a page.
  server: { proxy: { '/token': backEnd, '/messages': backEnd, '/settings': backEnd } },
}
