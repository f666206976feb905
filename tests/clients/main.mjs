// Runs SDKs, the Inspector and the real clients against outlive, and sums up. `node main.mjs [NAME…]` runs only those of these names.
//
// An SDK or the Inspector that fails is a failure. A real client that is not installed, or that does not get to our server at all, is
// named; one that gets to it and is answered wrongly is a failure; and at least two must have run.

import { overHosts } from './hosts.mjs'
import { inspect } from './inspector.mjs'
import { CLIENTS } from './real.mjs'
import { drive, SDKS } from './sdk.mjs'
import { NotRun, talk } from './talk.mjs'
import { resume, wake } from './wake.mjs'

const wanted = process.argv.slice(2)
const isWanted = name => wanted.length === 0 || wanted.some(part => name.toLowerCase().includes(part.toLowerCase()))
const tally = { passed: 0, failed: [], skipped: [], clients: 0 }

function expect(holds, what) {
  if (!holds) throw new Error(`expected: ${what}`)
}

async function attempt(name, run, isClient = false) {
  if (!isWanted(name)) return
  const start = Date.now()
  const seconds = () => `${((Date.now() - start) / 1000).toFixed(1)} s`
  try {
    const seen = await run()
    tally.passed += 1
    tally.clients += isClient ? 1 : 0
    console.log(`  passed  ${name}  ${seconds()}${seen.note ? `  ${seen.note}` : ''}`)
  } catch (error) {
    const isSkip = error instanceof NotRun
    tally[isSkip ? 'skipped' : 'failed'].push(name)
    console.log(`  ${isSkip ? 'NOT RUN' : 'FAILED '} ${name}  ${seconds()}  ${error.message.slice(0, 4000)}`)
  }
}

for (const sdk of SDKS) await attempt(sdk.name, () => drive(sdk, expect))
await attempt('Inspector', () => inspect(expect))
for (const client of CLIENTS) await attempt(client.name, () => talk(client, expect), true)
for (const client of CLIENTS) await attempt(`${client.name}, on another machine`, () => overHosts(client, expect))
for (const client of CLIENTS.filter(client => client.wake)) await attempt(`${client.name}, woken`, () => wake(client, expect))
for (const client of CLIENTS.filter(client => client.resume)) await attempt(`${client.name}, resumed`, () => resume(client, expect))

console.log(`${tally.passed} passed, ${tally.failed.length} failed, ${tally.skipped.length} not run${tally.skipped.length ? `: ${tally.skipped.join(', ')}` : ''}`)
if (wanted.length === 0 && tally.clients < 2) {
  console.log('at least two real clients must run')
  process.exit(1)
}
process.exit(tally.failed.length > 0 || tally.passed === 0 ? 1 : 0)
