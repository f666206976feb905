// Compares the screens of recorded programs with those of xterm.js: `node screens.mjs SCREENS FOLDER [NAME…]`.
//
// SCREENS is the program that prints our screens, FOLDER has the recordings. Rows and cursor are compared at every marker. What is known to
// differ is in FOLDER/differences.txt, with who is right; a difference that is not there fails, and so does one that is there and is gone.

import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'

const require = createRequire(join(process.env.OUTLIVE_TEST_CLIENTS, 'xterm', 'package.json'))
const { Terminal } = require('@xterm/headless')
const { Unicode11Addon } = require('@xterm/addon-unicode11')

const [program, folder, ...wanted] = process.argv.slice(2)

async function theirs(events, { cols, rows }) {
  const terminal = new Terminal({ cols, rows, scrollback: 0, allowProposedApi: true })
  terminal.loadAddon(new Unicode11Addon())
  terminal.unicode.activeVersion = '11'
  const screens = []
  for (const [, code, data] of events) {
    if (code === 'o') await new Promise(done => terminal.write(data, done))
    if (code === 'r') terminal.resize(...data.split('x').map(Number))
    if (code === 'm') {
      const buffer = terminal.buffer.active
      const lines = Array.from({ length: terminal.rows }, (_, row) => buffer.getLine(buffer.baseY + row)?.translateToString(true, 0, terminal.cols) ?? '(no row)')
      // A wrap that is pending counts as one column further.
      screens.push({ cursor: [buffer.cursorY + 1, Math.min(buffer.cursorX, terminal.cols - 1) + 1], rows: lines })
    }
  }
  return screens
}

function ours(path) {
  const lines = execFileSync(program, [path], { encoding: 'utf8', maxBuffer: 1 << 28 }).trim().split('\n')
  return lines.map(line => JSON.parse(line)).map(({ cursor, rows }) => ({ cursor: [cursor.row, cursor.column], rows }))
}

const known = new Map(readFileSync(join(folder, 'differences.txt'), 'utf8').split('\n').filter(line => line && !line.startsWith('#')).map(line => {
  const [place] = line.split(':', 1)
  return [place, line.slice(place.length + 1).trim()]
}))
const names = readdirSync(folder).filter(name => name.endsWith('.cast')).map(name => name.slice(0, -5)).filter(name => wanted.length === 0 || wanted.includes(name))
let [screens, differing] = [0, 0]
const failures = []
for (const name of names) {
  const [header, ...events] = readFileSync(join(folder, `${name}.cast`), 'utf8').trim().split('\n').map(line => JSON.parse(line))
  const [mine, other] = [ours(join(folder, `${name}.cast`)), await theirs(events, header.term)]
  mine.forEach((screen, number) => {
    screens += 1
    const place = `${name} ${number + 1}`
    const rows = screen.rows.map((row, index) => [index + 1, row, other[number].rows[index].trimEnd()]).filter(([, one, two]) => one !== two)
    const cursor = screen.cursor.join() === other[number].cursor.join() ? [] : [['cursor', screen.cursor.join(), other[number].cursor.join()]]
    const differences = [...rows, ...cursor]
    differing += differences.length > 0 ? 1 : 0
    if (differences.length > 0 && !known.has(place)) {
      failures.push(`${place}: ${differences.length} differences\n${differences.slice(0, 4).map(([what, one, two]) => `    ${what}\n      ours   ${JSON.stringify(one)}\n      xterm  ${JSON.stringify(two)}`).join('\n')}`)
    }
    if (differences.length === 0 && known.has(place)) failures.push(`${place}: no longer differs; take it out of differences.txt`)
  })
}
failures.forEach(failure => console.log(`  ${failure}`))
console.log(`  ${names.length} recordings, ${screens} screens, of which ${differing} differ`)
console.log(`${screens - failures.length} passed, ${failures.length} failed`)
process.exit(failures.length > 0 || screens === 0 ? 1 : 0)
