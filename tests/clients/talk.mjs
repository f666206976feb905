// One real client, from its first conversation to the end of what the second one found.

import { existsSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'

import { checkFirst, checkSecond, first, second } from './dialogue.mjs'
import { startModel } from './model.mjs'
import { INSTALLED, OUTLIVE, World, last } from './world.mjs'

// A client that is not there, or that never got as far as our tools: nothing is known about outlive then.
export class NotRun extends Error {}

// Returns what was seen, or throws with what is wrong.
export async function talk(client, expect) {
  const program = join(INSTALLED, client.name, client.program)
  if (!existsSync(program)) throw new NotRun('not installed')
  const world = new World(client.name)
  try {
    const offered = await converse(client, world, program, first, shown => checkFirst(shown, expect))
    const left = offered.checked
    expect(world.live().join() === left, `only ${left} goes on after the client's exit: ${world.live()}`)
    await converse(client, world, program, second, shown => checkSecond(shown, left, expect))
    expect(world.live().length === 0, `nothing is left: ${world.live()}`)
    const strays = world.end()
    expect(strays.length === 0, `no process is left: ${strays}`)
    world.remove()
    const tools = offered.tools.length > 0 ? `sees ${offered.tools.sort()[0]}…` : 'finds the tools by searching'
    return { note: `${tools}; ${offered.hasInstructions ? 'is' : 'is NOT'} told the server's instructions` }
  } catch (error) {
    world.end()
    error.message += ` (its home stays in ${world.home})`
    throw error
  }
}

export async function converse(client, world, program, script, check) {
  const model = await startModel(script)
  try {
    const setup = name => {
      const env = { PATH: `${dirname(program)}${delimiter}${world.env.PATH}` }
      const done = JSON.parse(world.outlive(['--json', 'setup', name, '--write'], env))
      if (done.action === 'add' && !done.command && !client.hasFile) throw new Error(`setup did not use the client's own command: ${JSON.stringify(done)}`)
    }
    client.prepare({ home: world.home, project: world.project, model, setup })
    const { code, output } = await world.run(program, client.arguments(), client.env(model), `${script.length}.log`)
    if (process.env.OUTLIVE_TEST_VERBOSE) console.error(JSON.stringify(model.seen.requests.map(r => ({ path: r.path, act: r.act })), null, 1), output)
    if (model.seen.problem) throw new Error(model.seen.problem)
    if (model.seen.requests.every(request => !request.act)) throw new NotRun(`it never asked the model: exit ${code}: ${last(output)}`)
    if (!model.seen.finished) throw new Error(`ended with ${code} after ${model.seen.shown.length} of ${script.length} steps: ${last(model.seen.shown.at(-1) ?? '')} ${last(output)}`)
    if (code !== 0) throw new Error(`exit ${code}: ${last(output)}`)
    const tools = model.seen.offered.filter(name => name.includes('outlive'))
    return { checked: check(model.seen.shown), tools, hasInstructions: model.seen.hasInstructions }
  } finally {
    await model.stop()
  }
}
