// A real client whose agent works on another machine: it runs a build there, is told of its end with a later call, reads why it failed,
// and ends a server there. The machine is this one, behind an sshd of its own on loopback, with another store.

import { spawn, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'

import { converse, NotRun } from './talk.mjs'
import { INSTALLED, OUTLIVE, World } from './world.mjs'

const SSHD = '/usr/sbin/sshd'
const HOST = 'gpu1'

const idOf = (name, text) => {
  const found = new RegExp(`${HOST}/${name}-\\w+`).exec(text)
  if (!found) throw new Error(`no job ${name} on ${HOST} in: ${text}`)
  return found[0]
}

// So many calls may come before the end is told: a busy machine takes its time to hear of it.
const CALLS = 8

// What the model does. The build goes on until the third call, which takes until it has ended there, as the other store tells: as another
// reader, since a client may name its conversation to its jobs, and what was told to it is not told again.
const script = machine => [
  { tool: 'run', args: () => ({ command: `echo compiling; until [ -e ${machine.go} ]; do sleep 0.1; done; echo "error: no such symbol: frobnicate" >&2; exit 2`, name: 'build', on: HOST, background: true }) },
  { tool: 'run', args: () => ({ command: 'exec sleep 600', name: 'server', on: HOST, background: true }) },
  { tool: 'run', args: () => ({ command: `touch ${machine.go}; OUTLIVE_HOME=${machine.store} ${OUTLIVE} --reader another wait build; echo waited`, wait_ms: 60000 }) },
  // Some clients end a turn in which the model repeats itself.
  ...Array.from({ length: CALLS }, (_, call) => ({ tool: 'run', args: () => ({ command: `sleep 1; echo next ${call}`, wait_ms: 20000 }) })),
  { tool: 'read_output', args: shown => ({ job: idOf('build', shown[0]) }) },
  { tool: 'list_jobs', args: () => ({}) },
  { tool: 'kill', args: shown => ({ job: idOf('server', shown[1]) }) },
]

function check(shown, expect) {
  const [build, server] = shown
  const [read, listed, killed] = shown.slice(3 + CALLS)
  const [buildJob, serverJob] = [idOf('build', build), idOf('server', server)]
  expect(build.includes(`${buildJob} running`), `it runs there: ${build}`)
  const calls = shown.slice(0, 3 + CALLS)
  const told = calls.filter(text => text.includes(`${buildJob} failed, exit 2`))
  expect(told.length === 1, `the end of ${buildJob} is told once, with a later call: ${calls.join('\n')}`)
  expect(read.includes('error: no such symbol: frobnicate') || told[0].includes('frobnicate'), `its failure is read: ${read}`)
  expect(new RegExp(`${serverJob}\\s+running`).test(listed), `${serverJob} is listed: ${listed}`)
  expect(killed.includes(`${serverJob} ended`), `${serverJob} is ended: ${killed}`)
}

const freePort = () => new Promise((resolve, reject) => {
  const server = createServer().on('error', reject)
  server.listen(0, '127.0.0.1', () => { const { port } = server.address(); server.close(() => resolve(port)) })
})

// A machine that ssh reaches by name, in a world.
class Machine {
  static async start(world) {
    const machine = new Machine()
    Object.assign(machine, { world, dir: join(world.home, 'ssh'), store: join(world.home, 'there'), go: join(world.home, 'go') })
    const { dir, store } = machine
    mkdirSync(dir, { mode: 0o700 })
    for (const name of ['host', 'user']) run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(dir, name)])
    const port = await freePort()
    writeFileSync(join(dir, 'sshd_config'), `Port ${port}\nListenAddress 127.0.0.1\nHostKey ${dir}/host\nAuthorizedKeysFile ${dir}/user.pub\nPidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nLogLevel ERROR\nPrintMotd no\nSetEnv OUTLIVE_HOME=${store} HOME=${world.home} SHLVL=1\n`)
    writeFileSync(join(dir, 'ssh_config'), `Host ${HOST}\n  HostName 127.0.0.1\n  Port ${port}\n  IdentityFile ${dir}/user\n  IdentitiesOnly yes\n  BatchMode yes\n  UserKnownHostsFile ${dir}/known\n  StrictHostKeyChecking accept-new\n  LogLevel ERROR\n`)
    // The user's own configuration is that of the password database's home; a world has one of its own.
    writeFileSync(join(dir, 'ssh'), `#!/bin/sh\nexec /usr/bin/ssh -F ${dir}/ssh_config "$@"\n`)
    chmodSync(join(dir, 'ssh'), 0o755)
    world.env.PATH = `${dir}:${world.env.PATH}`
    mkdirSync(world.store, { recursive: true })
    writeFileSync(join(world.store, 'config.toml'), `[hosts.${HOST}]\naddress = "ssh://${HOST}"\n`)
    mkdirSync('/run/sshd', { recursive: true })
    machine.sshd = spawn(SSHD, ['-D', '-f', join(dir, 'sshd_config')], { stdio: 'ignore' })
    for (let tries = 0; spawnSync(join(dir, 'ssh'), [HOST, 'true']).status !== 0; tries += 1) {
      if (tries > 100) throw new NotRun('sshd does not answer')
      await new Promise(resolve => setTimeout(resolve, 100))
    }
    return machine
  }

  live() {
    const listed = spawnSync(OUTLIVE, ['--json', 'list', '--live'], { env: { ...this.world.env, OUTLIVE_HOME: this.store }, encoding: 'utf8' })
    return JSON.parse(listed.stdout || '[]').map(job => job.job)
  }

  // Ends its jobs, the connection that ssh shares, and its server.
  stop() {
    const live = this.live()
    if (live.length > 0) spawnSync(OUTLIVE, ['kill', '--force', ...live], { env: { ...this.world.env, OUTLIVE_HOME: this.store } })
    spawnSync(join(this.dir, 'ssh'), ['-o', `ControlPath=/tmp/outlive-${process.getuid()}/%C`, '-O', 'exit', HOST], { stdio: 'ignore' })
    this.sshd.kill('SIGKILL')
  }
}

function run(program, words) {
  const done = spawnSync(program, words, { encoding: 'utf8' })
  if (done.status !== 0) throw new Error(`${program}: ${done.stderr}`)
}

export async function overHosts(client, expect) {
  const program = join(INSTALLED, client.name, client.program)
  if (!existsSync(program)) throw new NotRun('not installed')
  if (!existsSync(SSHD)) throw new NotRun('there is no sshd')
  const world = new World(client.name)
  let machine
  try {
    machine = await Machine.start(world)
    await converse(client, world, program, script(machine), shown => check(shown, expect))
    expect(machine.live().length === 0, `nothing is left there: ${machine.live()}`)
    machine.stop()
    const strays = world.end()
    expect(strays.length === 0, `no process is left: ${strays}`)
    world.remove()
    return {}
  } catch (error) {
    machine?.stop()
    world.end()
    error.message += ` (its home stays in ${world.home})`
    throw error
  }
}
