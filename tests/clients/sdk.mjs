// The official TypeScript SDKs drive every tool over stdio: the one of the handshake, and the one that knows both eras.

import { createRequire } from 'node:module'
import { join } from 'node:path'

import { INSTALLED, OUTLIVE, World } from './world.mjs'

const require = createRequire(join(INSTALLED, 'sdk', 'package.json'))
const INFO = { name: 'outlive-tests', version: '1' }

function transport(library, world) {
  return new library.StdioClientTransport({ command: OUTLIVE, args: ['mcp'], env: world.env, cwd: world.project, stderr: 'inherit' })
}

async function connectFirst(world) {
  const { Client } = require('@modelcontextprotocol/sdk/client/index.js')
  const client = new Client(INFO)
  await client.connect(transport(require('@modelcontextprotocol/sdk/client/stdio.js'), world))
  return client
}

async function connectSecond(world, mode, version, expect) {
  const { Client } = require('@modelcontextprotocol/client')
  const client = new Client(INFO, { versionNegotiation: { mode } })
  await client.connect(transport(require('@modelcontextprotocol/client/stdio'), world))
  const negotiated = client.getNegotiatedProtocolVersion()
  expect(negotiated === version, `speaks ${version}, not ${negotiated}`)
  return client
}

export const SDKS = [
  { name: 'TypeScript SDK 1', connect: connectFirst },
  { name: 'TypeScript SDK 2, handshake', connect: (world, expect) => connectSecond(world, 'legacy', '2025-11-25', expect) },
  { name: 'TypeScript SDK 2, either', connect: (world, expect) => connectSecond(world, 'auto', '2026-07-28', expect) },
  { name: 'TypeScript SDK 2, stateless', connect: (world, expect) => connectSecond(world, { pin: '2026-07-28' }, '2026-07-28', expect) },
]

const TOOLS = ['kill', 'list_jobs', 'manage_job', 'read_output', 'read_screen', 'run', 'send_input', 'wait']

export async function drive(sdk, expect) {
  const world = new World('sdk')
  try {
    const client = await sdk.connect(world, expect)
    try {
      await everyTool(client, expect)
    } finally {
      await client.close()
    }
    // The server is gone; what it started is not.
    expect(world.live().some(job => job.startsWith('stays-')), `a job outlives the connection: ${world.live()}`)
    const anew = await sdk.connect(world, expect)
    const { text } = await call(anew, 'list_jobs', { status: 'live' })
    expect(/stays-\w+\s+running/.test(text), `the next connection finds it: ${text}`)
    const killed = await call(anew, 'kill', { job: 'stays' })
    expect(/stays-\w+ ended/.test(killed.text), killed.text)
    await anew.close()
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

async function call(client, name, args) {
  const result = await client.callTool({ name, arguments: args })
  return { isError: result.isError === true, text: result.content.map(block => block.text).join('\n'), result }
}

async function everyTool(client, expect) {
  const { tools } = await client.listTools()
  expect(tools.map(tool => tool.name).sort().join() === TOOLS.join(), `eight tools: ${tools.map(tool => tool.name)}`)
  for (const tool of tools) {
    const hints = ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint']
    expect(hints.every(hint => typeof tool.annotations?.[hint] === 'boolean'), `all four annotations of ${tool.name}`)
    expect(Buffer.byteLength(tool.description) <= 400, `a short description of ${tool.name}`)
  }
  expect(Buffer.byteLength(client.getInstructions() ?? '') > 100, 'instructions')

  const expectCall = async (name, args, pattern, isError = false) => {
    const answered = await call(client, name, args)
    expect(answered.isError === isError && pattern.test(answered.text), `${name} ${JSON.stringify(args)}: ${answered.text}`)
    expect(answered.result.structuredContent === undefined, `${name} answers with text alone`)
    return answered.text
  }
  await expectCall('run', { command: 'echo out; echo err >&2; exit 3' }, /failed, exit 3[^]*out\nerr|failed, exit 3[^]*err\nout/)
  await expectCall('run', { command: 'echo stays; exec sleep 600', name: 'stays', background: true }, /stays-\w+ running/)
  await expectCall('run', { command: 'while read -r line; do echo "got $line"; done', name: 'echo', stdin: 'open', wait_ms: 0 }, /echo-\w+ running/)
  await expectCall('send_input', { job: 'echo', text: 'hello' }, /got hello/)
  await expectCall('send_input', { job: 'echo', text: 'bye', eof: true }, /got bye/)
  await expectCall('wait', { jobs: ['echo'] }, /echo-\w+ completed, exit 0/)
  await expectCall('run', { command: 'sleep 1; echo the line; exec sleep 600', name: 'late', background: true }, /late-\w+ running/)
  await expectCall('wait', { jobs: ['late'], for: 'match', pattern: 'the l.ne', timeout_ms: 20000 }, /the line/)
  await expectCall('kill', { job: 'late' }, /late-\w+ ended/)
  await expectCall('wait', { jobs: ['stays'], timeout_ms: 50 }, /stays-\w+ running/)
  await expectCall('read_output', { job: 'echo', from_line: 1, lines: 1 }, /got hello/)
  await expectCall('read_screen', { job: 'stays' }, /stays-\w+/, true)
  await expectCall('list_jobs', {}, /4 jobs, 1 live/)
  await expectCall('manage_job', { job: 'stays', action: 'pause' }, /paused/)
  await expectCall('manage_job', { job: 'stays', action: 'resume' }, /stays-\w+ running/)
  await expectCall('manage_job', { job: 'echo', action: 'remove' }, /echo-\w+ removed/)
  await expectCall('run', { command: 'exec sleep 600', name: 'victim', background: true }, /victim-\w+ running/)
  await expectCall('kill', { job: 'victim' }, /victim-\w+ ended/)
  await expectCall('kill', { job: 'no-such-job' }, /there is no job[^]*stays-\w+/, true)
  await expectCall('read_output', {}, /job/, true)
  await resources(client, expect)
}

async function resources(client, expect) {
  const { resources } = await client.listResources()
  expect(resources.some(resource => resource.uri === 'outlive://jobs'), `the list of jobs is a resource: ${JSON.stringify(resources)}`)
  const { resourceTemplates } = await client.listResourceTemplates()
  const templates = resourceTemplates.map(template => template.uriTemplate)
  expect(templates.includes('outlive://job/{id}') && templates.includes('outlive://job/{id}/output'), `templates: ${templates}`)
  const uri = 'outlive://job/{id}/output'
  const { completion } = await client.complete({ ref: { type: 'ref/resource', uri }, argument: { name: 'id', value: 'st' } })
  expect(completion.values.length === 1 && /^stays-\w+$/.test(completion.values[0]), `ids are completed: ${completion.values}`)
  const { contents } = await client.readResource({ uri: uri.replace('{id}', completion.values[0]) })
  expect(contents[0].text.includes('stays'), `output is read: ${JSON.stringify(contents)}`)
}
