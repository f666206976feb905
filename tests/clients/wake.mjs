// An agent that has ended its turn is woken when its job ends: `outlive setup CLIENT --wake`, with the real client.

import { spawn } from 'node:child_process'
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { startModel } from './model.mjs'
import { PROMPT } from './real.mjs'
import { NotRun } from './talk.mjs'
import { INSTALLED, World, last } from './world.mjs'

const LIMIT = 90_000
const WORDS = 'the job is over and this is its last line'

// Runs a client in a home of its own, with a job that ends when `act` opens the gate; what it prints then reaches only an agent that is woken.
async function withJob(client, kind, more, act) {
  const program = join(INSTALLED, client.name, client.program)
  if (!existsSync(program)) throw new NotRun('not installed')
  const world = new World(`${client.name}-${kind}`)
  const gate = join(world.home, 'gate')
  const command = `while [ ! -e ${gate} ]; do sleep 0.05; done; echo the job is over and this is its' last line'`
  const model = await startModel([{ tool: 'run', args: () => ({ command, name: 'build', background: true, ...more(program) }) }])
  const context = { client, world, program, model, until, agent: undefined }
  try {
    context.setup = (name, more = []) => {
      const env = { PATH: `${dirname(program)}${delimiter}${world.env.PATH}` }
      return JSON.parse(world.outlive(['--json', 'setup', name, ...more, '--write'], env))
    }
    client.prepare({ home: world.home, project: world.project, model, setup: context.setup })
    context.start = (program, arguments_, env) => startIn(world, program, arguments_, { ...client.env(model), ...env })
    context.openGate = () => writeFileSync(gate, '')
    const note = await act(context)
    world.remove()
    return { note }
  } catch (error) {
    context.agent?.kill()
    world.end()
    error.message += ` (its home stays in ${world.home})`
    throw error
  } finally {
    await model.stop()
  }
}

// An agent that is idle: its client runs `outlive wake`. Returns what was seen, or throws with what is wrong.
export const wake = (client, expect) => withJob(client, 'wake', () => ({}), async context => {
  const { world, model, setup } = context
  const name = client.wake.name ?? client.name
  const done = setup(name, ['--wake'])
  expect(done.action === 'add' && done.written, `it is set up: ${JSON.stringify(done)}`)
  const agent = context.agent = await client.wake.start(context)
  await until(() => `the turn is over: ${model.seen.problem ?? ''} ${agent.shown()}`, () => model.seen.finished || agent.hasEnded())
  await until(() => `a hook waits: ${agent.shown()}`, () => waits(world) || agent.hasEnded())
  if (agent.hasEnded()) throw new Error(`it has ended, and no hook waits: ${agent.shown()}`)
  const isTold = tells('since your last call')
  const asked = model.seen.requests.length
  expect(!model.seen.requests.some(isTold), 'it has heard of nothing yet')
  context.openGate()
  const ended = Date.now()
  await until(() => `it is woken: ${agent.shown()}`, () => model.seen.requests.slice(asked).some(isTold))
  const took = Date.now() - ended
  await agent[client.wake.ends ? 'end' : 'stop']()
  const undone = setup(name, ['--wake', '--remove'])
  expect(undone.action === 'remove' && undone.written, `it is undone: ${JSON.stringify(undone)}`)
  expect(world.live().length === 0, `nothing is left: ${world.live()}`)
  const strays = world.end()
  expect(!client.wake.ends || strays.length === 0, `no process is left: ${strays}`)
  return `${client.wake.how}; woken ${took} ms after the end of its job`
})

// An agent that is gone: a line at the job's end resumes its conversation.
export const resume = (client, expect) => withJob(client, 'resume', program => ({ on_exit: client.resume(program) }), async context => {
  const { world, model } = context
  const agent = context.agent = context.start(context.program, client.arguments())
  agent.closeInput()
  await agent.end()
  expect(model.seen.finished, `its turn is over: ${model.seen.problem ?? ''} ${agent.shown()}`)
  const asked = model.seen.requests.length
  context.openGate()
  const ended = Date.now()
  const onExit = () => JSON.stringify(JSON.parse(world.outlive(['--json', 'show', 'build'])).on_exit)
  // What was said before is there, and the notice.
  const isTold = tells('exited with 0', PROMPT)
  await until(() => `it is resumed: ${onExit()}`, () => model.seen.requests.slice(asked).some(isTold))
  const took = Date.now() - ended
  await until(() => `its line is over: ${onExit()}`, () => onExit().includes('"exit_code":0'))
  const strays = world.end()
  expect(strays.length === 0, `no process is left: ${strays}`)
  return `gone; its conversation was resumed ${took} ms after the end of its job`
})

// Tells whether a request to the model has the last line of the job, and these words.
const tells = (...words) => ({ body }) => body && [WORDS, ...words].every(words => JSON.stringify(body).includes(words))

async function until(what, isSo) {
  const end = Date.now() + LIMIT
  while (!await isSo()) {
    if (Date.now() > end) throw new Error(`not within ${LIMIT / 1000} s: ${what()}`)
    await sleep(50)
  }
}

// Tells whether a program of this home is `outlive wake`.
function waits(world) {
  const isWaiting = pid => {
    try {
      const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
      return words[0].endsWith('outlive') && words.slice(1, 3).includes('wake') && world.owns(pid)
    } catch {
      return false
    }
  }
  return readdirSync('/proc').some(pid => /^\d+$/.test(pid) && isWaiting(pid))
}

// Starts a client in a home.
function startIn(world, program, arguments_, env) {
  const child = spawn(program, arguments_, { cwd: world.project, env: { ...world.env, ...env }, stdio: ['pipe', 'pipe', 'pipe'], detached: true })
  const printed = []
  let hasEnded = false
  const closed = new Promise(resolve => child.on('close', code => { hasEnded = true; resolve(code) }))
  child.on('error', error => { hasEnded = true; printed.push(Buffer.from(String(error))) })
  child.stdin.on('error', () => {})
  for (const stream of [child.stdout, child.stderr]) stream.on('data', data => printed.push(data))
  const output = () => Buffer.concat(printed).toString()
  const kill = () => { try { process.kill(-child.pid, 'SIGKILL') } catch { /* gone */ } }
  return {
    write: text => child.stdin.write(text),
    closeInput: () => child.stdin.end(),
    output,
    shown: () => last(output().replaceAll(/\x1b\[[0-9;?]*[a-zA-Z]/g, ' ')),
    hasEnded: () => hasEnded,
    kill,
    // Waits for its own end.
    async end() {
      const code = await Promise.race([closed, sleep(LIMIT).then(() => 'late')])
      if (code !== 0) throw new Error(`exit ${code}: ${last(output())}`)
    },
    async stop() {
      kill()
      await closed
    },
  }
}
