// A model on loopback that follows a script. It speaks the four APIs that agents' clients speak, and holds no state between requests:
// where the dialogue stands is read from the conversation that the client sends, as a real model would.

import { createServer } from 'node:http'

// Calls of the script are known by their ids; clients hand them back with the result.
const OURS = 'outlive_step_'

// Starts the model. `script` is a list of steps, each {tool, args(shown)}; `shown` are the results so far, as the model saw them.
// What the model was offered and shown is collected in the object that is returned.
export async function startModel(script) {
  const seen = { offered: [], hasInstructions: false, shown: [], requests: [], finished: false, problem: null }
  const server = createServer((request, response) => {
    const chunks = []
    request.on('data', chunk => chunks.push(chunk))
    request.on('end', () => {
      try {
        answer(request, Buffer.concat(chunks).toString(), response, script, seen)
      } catch (error) {
        seen.problem ??= `the model failed at ${request.method} ${request.url}: ${error.stack}`
        response.writeHead(500, { 'content-type': 'application/json' }).end(JSON.stringify({ error: String(error) }))
      }
    })
  })
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  const stop = () => new Promise(resolve => { server.close(resolve); server.closeAllConnections() })
  return { url: `http://127.0.0.1:${server.address().port}`, port: server.address().port, seen, stop }
}

function answer(request, text, response, script, seen) {
  const path = new URL(request.url, 'http://model').pathname
  const wire = WIRES.find(wire => wire.path.test(path) && request.method === 'POST')
  if (!wire) {
    seen.requests.push({ path: `${request.method} ${path}` })
    const other = OTHERS.find(([pattern]) => pattern.test(path))
    response.writeHead(other ? 200 : 404, { 'content-type': 'application/json' }).end(JSON.stringify(other?.[1] ?? {}))
    return
  }
  const body = JSON.parse(text)
  const conversation = wire.read(body)
  const act = decide(conversation, script, seen)
  // Wherever a client puts them: system prompt, a message, the description of a namespace.
  seen.hasInstructions ||= text.includes('outlive runs commands as background jobs')
  seen.requests.push({ path, body, act })
  wire.write(response, act, body, path)
}

// What clients ask for besides answers.
const OTHERS = [
  [/count_tokens$/, { input_tokens: 10 }],
  [/countTokens$/, { totalTokens: 10 }],
  [/\/models$/, { object: 'list', data: [{ id: 'scripted', object: 'model' }], models: [] }],
]

function decide({ tools, results }, script, seen) {
  const find = tool => tools.find(name => name.includes('outlive') && new RegExp(`[_.:/-]${tool}$`).test(name))
  const search = tools.find(name => /^tool_?search$/i.test(name))
  const shown = results.filter(result => result.id?.startsWith(OURS) || result.isOurs).map(result => result.text)
  const searched = results.some(result => result.id?.startsWith('search_'))
  // A request without any of our tools is some other business of the client's, such as a title.
  const isDialogue = find('run') || search || shown.length > 0
  if (!isDialogue) return { say: 'A title' }
  if (shown.length >= seen.shown.length) {
    seen.shown = shown
    seen.offered = tools
  }
  const step = script[shown.length]
  if (!step) {
    seen.finished = true
    return { say: 'The script is over.' }
  }
  const id = `${OURS}${shown.length}`
  let args
  try {
    args = step.args(shown)
  } catch (error) {
    // The dialogue cannot go on, and the client must not try for ever.
    seen.problem ??= `at ${step.tool}: ${error.message}`
    return { say: 'The script cannot go on.' }
  }
  if (find(step.tool)) return { call: { id, name: find(step.tool), args } }
  if (!searched) {
    const names = ['run', 'wait', 'read_output', 'kill', 'list_jobs'].map(tool => `mcp__outlive__${tool}`)
    return { call: { id: 'search_1', name: search, args: { query: `select:${names.join(',')}`, max_results: 10 } } }
  }
  // Some take a tool that was found by its own name, some through another tool.
  const through = tools.find(name => /^tool_?call$/i.test(name))
  const name = `mcp__outlive__${step.tool}`
  return { call: through ? { id, name: through, args: { name, arguments: args } } : { id, name, args } }
}

// All texts in a value, however the client has wrapped them.
function texts(value) {
  if (typeof value === 'string') return [value]
  if (Array.isArray(value)) return value.flatMap(texts)
  if (value && typeof value === 'object') return Object.entries(value).flatMap(([key, inner]) => (key === 'type' ? [] : texts(inner)))
  return []
}
const joined = value => texts(value).join('\n')

function events(response, list) {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  for (const [event, data] of list) {
    if (event) response.write(`event: ${event}\n`)
    response.write(`data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`)
  }
  response.end()
}

const whole = (response, data) => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(data))

// Anthropic's Messages.
const messages = {
  path: /\/v1\/messages$/,
  read: body => ({
    tools: (body.tools ?? []).map(tool => tool.name),
    results: body.messages.flatMap(message => (Array.isArray(message.content) ? message.content : []))
      .filter(block => block.type === 'tool_result')
      .map(block => ({ id: block.tool_use_id, text: joined(block.content), isError: block.is_error })),
  }),
  write(response, act, body) {
    const block = act.call
      ? { type: 'tool_use', id: act.call.id, name: act.call.name, input: act.call.args }
      : { type: 'text', text: act.say }
    const stop = act.call ? 'tool_use' : 'end_turn'
    const message = { id: 'msg_1', type: 'message', role: 'assistant', model: body.model, content: [], stop_reason: null, stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 } }
    if (!body.stream) return whole(response, { ...message, content: [block], stop_reason: stop })
    const delta = act.call ? { type: 'input_json_delta', partial_json: JSON.stringify(act.call.args) } : { type: 'text_delta', text: act.say }
    const opening = act.call ? { ...block, input: {} } : { ...block, text: '' }
    events(response, [
      { type: 'message_start', message },
      { type: 'content_block_start', index: 0, content_block: opening },
      { type: 'content_block_delta', index: 0, delta },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: stop, stop_sequence: null }, usage: { output_tokens: 1 } },
      { type: 'message_stop' },
    ].map(data => [data.type, data]))
  },
}

// OpenAI's Responses. Tools of a server may come in a namespace; the call then names both.
const responses = {
  path: /\/responses$/,
  read: body => ({
    tools: (body.tools ?? []).flatMap(tool => (tool.type === 'namespace' ? tool.tools.map(inner => `${tool.name}/${inner.name}`) : [tool.name ?? tool.type])),
    results: body.input
      .filter(item => item.type === 'function_call_output')
      .map(item => ({ id: item.call_id, text: joined(item.output) })),
  }),
  write(response, act) {
    const names = act.call?.name.split('/') ?? []
    const item = act.call
      ? { type: 'function_call', id: `fc_${act.call.id}`, call_id: act.call.id, name: names.at(-1), arguments: JSON.stringify(act.call.args), ...(names.length > 1 && { namespace: names[0] }) }
      : { type: 'message', id: 'msg_1', role: 'assistant', content: [{ type: 'output_text', text: act.say }] }
    events(response, [
      { type: 'response.created', response: { id: 'resp_1' } },
      { type: 'response.output_item.done', output_index: 0, item },
      { type: 'response.completed', response: { id: 'resp_1', usage: { input_tokens: 1, input_tokens_details: null, output_tokens: 1, output_tokens_details: null, total_tokens: 2 } } },
    ].map(data => [data.type, data]))
  },
}

// OpenAI's chat completions.
const chat = {
  path: /\/chat\/completions$/,
  read: body => ({
    tools: (body.tools ?? []).map(tool => tool.function?.name ?? tool.custom?.name ?? tool.type),
    results: body.messages.filter(message => message.role === 'tool').map(message => ({ id: message.tool_call_id, text: joined(message.content) })),
  }),
  write(response, act, body) {
    const call = act.call && { id: act.call.id, type: 'function', function: { name: act.call.name, arguments: JSON.stringify(act.call.args) } }
    const message = { role: 'assistant', content: act.say ?? null, ...(call && { tool_calls: [call] }) }
    const reason = call ? 'tool_calls' : 'stop'
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
    const base = { id: 'chat_1', created: 1, model: body.model }
    if (!body.stream) {
      return whole(response, { ...base, object: 'chat.completion', choices: [{ index: 0, message, finish_reason: reason }], usage })
    }
    const chunk = (delta, finish_reason, more) => ({ ...base, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason }], ...more })
    const delta = call ? { ...message, tool_calls: [{ index: 0, ...call }] } : message
    events(response, [['', chunk(delta, null)], ['', chunk({}, reason, { usage })], ['', '[DONE]']])
  },
}

// Google's Gemini API. It has no ids that every client hands back; the names of the tools tell which results are ours.
const gemini = {
  path: /:(stream)?[gG]enerateContent$/,
  read: body => ({
    tools: (body.tools ?? []).flatMap(tool => tool.functionDeclarations ?? []).map(tool => tool.name),
    results: body.contents.flatMap(content => content.parts ?? [])
      .filter(part => part.functionResponse)
      .map(part => ({ isOurs: part.functionResponse.name.includes('outlive'), text: joined(part.functionResponse.response) })),
  }),
  write(response, act, body, path) {
    const part = act.call ? { functionCall: { name: act.call.name, args: act.call.args } } : { text: act.say }
    const data = {
      candidates: [{ index: 0, content: { role: 'model', parts: [part] }, finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
    }
    if (/stream/.test(path)) events(response, [['', data]])
    else whole(response, data)
  },
}

const WIRES = [messages, responses, chat, gemini]
