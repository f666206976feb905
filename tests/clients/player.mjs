// Plays exports of jobs in asciinema-player, in a browser: `node player.mjs BROWSER`.
//
// The text of the last screen in the player must be that of `outlive screen`. The page has all that it needs; the browser loads nothing.
//
// Lines that a smaller size wraps again are not compared: the player's emulator (avt) then scrolls rows away although there are blank ones
// below the cursor; xterm.js and ours do not. Programs that draw themselves anew are not concerned.

import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const [browser] = process.argv.slice(2)
const program = process.env.OUTLIVE_TEST_PROGRAM
const player = readFileSync(join(process.env.OUTLIVE_TEST_CLIENTS, 'player/node_modules/asciinema-player/dist/bundle/asciinema-player.min.js'), 'utf8')
const home = mkdtempSync(join(tmpdir(), 'outlive-player-'))
const outlive = (...given) => execFileSync(program, given, { encoding: 'utf8', env: { ...process.env, HOME: home, OUTLIVE_HOME: join(home, 'store') }, stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 1 << 28 })
const start = (name, line) => outlive('run', '--pty', '--size', '60x15', '--name', name, line)

// A job that fails makes `wait` exit with 7.
const ended = name => {
  try {
    outlive('wait', '--timeout', '60s', name)
  } catch (error) {
    if (error.status !== 7) throw error
  }
}

// What is done on each terminal; the job has ended afterwards.
const jobs = {
  colours: name => {
    start(name, "seq 40; printf '\\033[1;32mgreen\\033[0m \\033[7mreverse\\033[0m 世界 é\\n'; printf '\\033[3;10Hthere\\033[K\\033[14;1H'; exit 7")
    ended(name)
  },
  resized: name => {
    start(name, "printf '%s\\r\\n' 123456789012345678901234567890 above; read line; clear; stty size; printf 'after a line that is too long for a row of it'; read line")
    outlive('screen', name, '--wait-stable', '500ms')
    outlive('resize', name, '30x10')
    outlive('send', name, '--keys', 'Enter')
    outlive('screen', name, '--wait-stable', '500ms')
    outlive('kill', name)
  },
  pager: name => {
    start(name, 'seq 500 | less')
    outlive('screen', name, '--wait-stable', '500ms')
    outlive('send', name, '--keys', 'Space Space "/77" Enter')
    outlive('screen', name, '--wait-stable', '500ms')
    outlive('kill', '--force', name)
  },
}

// The promise `last` has the text of each row of the last screen, as spans with their columns: blanks between them are not in the page.
const page = cast => `<!doctype html><meta charset="utf-8"><body><div id="player"></div><script>${player}</script><script>
const last = new Promise(tell => {
  const shown = AsciinemaPlayer.create({ data: ${JSON.stringify(cast).replaceAll('<', '\\u003c')} }, document.getElementById('player'), { autoPlay: true, idleTimeLimit: 0.2, controls: false })
  const rows = () => [...document.querySelectorAll('.ap-line')].map(line => [...line.children].map(span => [Number(span.style.getPropertyValue('--offset')), span.textContent]))
  // The end is told before it is drawn.
  const afterFrames = count => (count > 0 ? requestAnimationFrame(() => afterFrames(count - 1)) : tell(JSON.stringify(rows())))
  shown.addEventListener('ended', () => afterFrames(10))
})
</script>`

// Opens a page and returns what an expression in it comes to. The browser is spoken to through descriptors 3 and 4.
async function evaluate(url, expression) {
  const given = ['--headless', '--no-sandbox', '--disable-gpu', `--user-data-dir=${join(home, 'browser')}`, '--remote-debugging-pipe']
  const process = spawn(browser, given, { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'], env: { ...globalThis.process.env, HOME: home } })
  const ended = once(process, 'exit')
  const waiting = new Map()
  let [text, number] = ['', 0]
  process.stdio[4].setEncoding('utf8').on('data', part => {
    const messages = (text + part).split('\0')
    text = messages.pop()
    messages.map(message => JSON.parse(message)).forEach(({ id, result, error }) => waiting.get(id)?.(result ?? error))
  })
  const ask = (method, params, sessionId) => new Promise(resolve => {
    number += 1
    waiting.set(number, resolve)
    process.stdio[3].write(`${JSON.stringify({ id: number, method, params, sessionId })}\0`)
  })
  const limit = setTimeout(() => process.kill('SIGKILL'), 120_000)
  try {
    const work = async () => {
      const { targetId } = await ask('Target.createTarget', { url })
      const { sessionId } = await ask('Target.attachToTarget', { targetId, flatten: true })
      for (;;) {
        const { result } = await ask('Runtime.evaluate', { expression, awaitPromise: true }, sessionId)
        if (typeof result?.value === 'string') return result.value
        // The page is not loaded yet.
        await new Promise(resolve => setTimeout(resolve, 50))
      }
    }
    return await Promise.race([work(), ended.then(() => Promise.reject(new Error('the recording did not come to its end')))])
  } finally {
    clearTimeout(limit)
    process.kill('SIGKILL')
    await ended
  }
}

// Columns of a text, as far as these recordings go: what stands in the East Asian blocks takes two.
const width = text => [...text].reduce((sum, character) => sum + (/[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60]/u.test(character) ? 2 : 1), 0)

async function theirs(cast, name) {
  const path = join(home, `${name}.html`)
  writeFileSync(path, page(cast))
  const rows = JSON.parse(await evaluate(`file://${path}`, 'last'))
  return rows.map(spans => spans.reduce((row, [column, part]) => row + ' '.repeat(Math.max(0, column - width(row))) + part, '').trimEnd())
}

const failures = []
try {
  for (const [name, act] of Object.entries(jobs)) {
    act(name)
    const { rows } = JSON.parse(outlive('--json', 'screen', name))
    const other = await theirs(outlive('export', name, '--cast'), name)
    const differing = rows.map((row, index) => [index + 1, row, other[index]]).filter(([, one, two]) => one !== two)
    if (differing.length > 0 || rows.length !== other.length || rows.every(row => row === '')) {
      failures.push(`${name}: ${rows.length} rows, the player has ${other.length}\n${differing.slice(0, 5).map(([row, one, two]) => `    ${row}\n      ours    ${JSON.stringify(one)}\n      player  ${JSON.stringify(two)}`).join('\n')}`)
    }
  }
} finally {
  outlive('kill', '--force', '--all')
  rmSync(home, { recursive: true, maxRetries: 20 })
}
failures.forEach(failure => console.log(`  ${failure}`))
console.log(`${Object.keys(jobs).length - failures.length} passed, ${failures.length} failed`)
process.exit(failures.length > 0 ? 1 : 0)
