// Made by `outlive setup opencode --wake`, and removed by it with --remove: when the agent falls idle, waits for its jobs, and tells it
// when one ends, asks for an answer or prints a line that the agent watches for.
import { spawn } from 'node:child_process'

const PROGRAM = 'outlive'

export const Outlive = async ({ client }) => ({
  event: async ({ event }) => {
    if (event.type !== 'session.idle') return
    const id = event.properties.sessionID
    const session = await client.session.get({ path: { id } })
    // The agent above is told, not one that it has started.
    if (session.data?.parentID) return
    const waiting = spawn(PROGRAM, ['wake'], { stdio: ['ignore', 'ignore', 'pipe'] })
    const told = []
    waiting.stderr.on('data', data => told.push(data))
    waiting.on('error', () => {})
    waiting.on('close', code => {
      if (code !== 2) return
      const parts = [{ type: 'text', text: Buffer.concat(told).toString() }]
      client.session.promptAsync({ path: { id }, body: { parts } }).catch(() => {})
    })
  },
})
