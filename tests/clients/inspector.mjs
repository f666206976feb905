// The MCP Inspector's command line, with its check of whether schemas work in every client.

import { join } from 'node:path'

import { INSTALLED, OUTLIVE, World, write } from './world.mjs'

const PROGRAM = join(INSTALLED, 'sdk/node_modules/.bin/mcp-inspector')

// A server whose schema no client should be given: it proves that the check looks.
const BAD = `
const answer = (id, result) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, result }) + '\\n')
require('node:readline').createInterface({ input: process.stdin }).on('line', line => {
  const { id, method, params } = JSON.parse(line)
  if (method === 'initialize') answer(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'bad', version: '1' } })
  if (method === 'tools/list') answer(id, { tools: [{ name: 'bad', inputSchema: { type: 'object', properties: { anything: true } } }] })
})
`

export async function inspect(expect) {
  const world = new World('inspector')
  const ask = (era, arguments_, server = [OUTLIVE, 'mcp']) =>
    world.run(PROGRAM, ['--cli', '-q', '--protocol-era', era, ...arguments_, '--format', 'json', '--', ...server], { MCP_INSPECTOR_SECRET_STORE: 'memory' }, `${era}.log`)
  try {
    for (const era of ['legacy', 'modern']) {
      const list = await ask(era, ['--method', 'tools/list', '--strict'])
      expect(list.code === 0, `${era}: tools/list --strict exits with ${list.code}: ${list.output}`)
      const { result: { tools }, schemaFindings } = JSON.parse(list.output)
      expect(schemaFindings === undefined, `${era}: not even a warning: ${JSON.stringify(schemaFindings)}`)
      expect(tools.length === 8, `${era}: nothing but the list of eight tools is printed`)
      const run = await ask(era, ['--method', 'tools/call', '--tool-name', 'run', '--tool-args-json', '{"command":"echo hello from the inspector"}'])
      expect(run.code === 0 && run.output.includes('\\nhello from the inspector'), `${era}: tools/call: ${run.code} ${run.output}`)
      const wrong = await ask(era, ['--method', 'tools/call', '--tool-name', 'kill', '--tool-args-json', '{"job":"none"}'])
      expect(wrong.code === 5, `${era}: an error is seen as one: ${wrong.code} ${wrong.output}`)
    }
    write(join(world.home, 'bad.cjs'), BAD)
    const bad = await ask('legacy', ['--method', 'tools/list', '--strict'], ['node', join(world.home, 'bad.cjs')])
    expect(bad.code === 6, `the check refuses a bad schema: ${bad.code} ${bad.output}`)
    const strays = world.end()
    expect(strays.length === 0, `no process is left: ${strays}`)
    world.remove()
    return {}
  } catch (error) {
    world.end()
    error.message += ` (its home stays in ${world.home})`
    throw error
  }
}
