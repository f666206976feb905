// The real clients: how each is told of the server and of the model, and how it is started without a person.
//
// `outlive setup` enters the server: through the client's own command, or in its file where it `hasFile` and no such command.

import { mkdirSync, writeFileSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const write = (path, contents) => {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, typeof contents === 'string' ? contents : JSON.stringify(contents, null, 2))
}

export const PROMPT = 'Follow the script.'

// Where a client answers once and ends, it goes on for as long as its hook says.
const ONCE = {
  how: 'its hook holds the end of the turn',
  ends: true,
  start({ client, program, start }) {
    const agent = start(program, client.arguments())
    agent.closeInput()
    return agent
  },
}

// Each: package (by which it is installed), program, prepare({home, project, model, setup}), env, arguments; and, where its agent can be
// woken, wake: how, start({client, world, program, model, start, until}), and whether it ends by itself then; where
// a line can resume its conversation, resume(program).
export const CLIENTS = [
  {
    name: 'claude',
    package: '@anthropic-ai/claude-code@2.1.325',
    program: 'node_modules/.bin/claude',
    prepare({ home, project, setup }) {
      setup('claude-code')
      // What a person has answered once: how it looks, the key, and that the directory is trusted.
      const file = join(home, '.claude.json')
      const answered = { hasCompletedOnboarding: true, theme: 'dark', customApiKeyResponses: { approved: ['none'], rejected: [] }, projects: { [project]: { hasTrustDialogAccepted: true } } }
      write(file, { ...JSON.parse(readFileSync(file, 'utf8')), ...answered })
      // What the guide says for tools without prompts.
      write(join(home, '.claude/settings.json'), { permissions: { allow: ['mcp__outlive'] } })
    },
    env: model => ({ ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'none', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', DISABLE_AUTOUPDATER: '1' }),
    arguments: () => ['-p', PROMPT, '--model', 'claude-sonnet-4-5'],
    resume: program => `env -u CLAUDECODE ${program} -p --model claude-sonnet-4-5 --resume "$CLAUDE_CODE_SESSION_ID" "A background job has ended. Its notice is on standard input."`,
    wake: {
      name: 'claude-code',
      how: 'idle in a terminal',
      async start({ world, program, start, until }) {
        const line = `stty rows 40 cols 120; exec ${program} --model claude-sonnet-4-5`
        const agent = start('script', ['-qfec', line, join(world.home, 'typescript')], { TERM: 'xterm-256color' })
        await until(() => `it asks for a prompt: ${agent.shown()}`, () => /❯[^]*mode on/.test(agent.output()))
        agent.write(PROMPT)
        await new Promise(resolve => setTimeout(resolve, 500))
        agent.write('\r')
        return agent
      },
    },
  },
  {
    name: 'codex',
    package: '@openai/codex@0.166.0',
    program: 'node_modules/.bin/codex',
    prepare({ home, model, setup }) {
      const file = join(home, '.codex/config.toml')
      const provider = `model = "scripted"\nmodel_provider = "scripted"\n\n[model_providers.scripted]\nname = "scripted"\nbase_url = "${model.url}/v1"\nwire_api = "responses"\n`
      write(file, provider)
      setup('codex')
      // What the guide says for tools without prompts.
      const entry = '[mcp_servers.outlive]\n'
      writeFileSync(file, readFileSync(file, 'utf8').replace(entry, `${entry}default_tools_approval_mode = "approve"\n`))
    },
    env: () => ({}),
    arguments: () => ['exec', '--skip-git-repo-check', PROMPT],
    resume: program => `${program} exec --skip-git-repo-check resume --last -`,
    wake: {
      ...ONCE,
      // What a person has reviewed once, with /hooks.
      start: ({ program, start }) => ONCE.start({ program, start, client: { arguments: () => ['exec', '--skip-git-repo-check', '--dangerously-bypass-hook-trust', PROMPT] } }),
    },
  },
  {
    name: 'gemini',
    package: '@google/gemini-cli@0.61.0',
    program: 'node_modules/.bin/gemini',
    prepare({ home, setup }) {
      const file = join(home, '.gemini/settings.json')
      write(file, { security: { auth: { selectedType: 'gemini-api-key' } }, privacy: { usageStatisticsEnabled: false } })
      // It keeps its key from servers, and so from jobs: what a line at a job's end starts finds it here.
      write(join(home, '.gemini/.env'), 'GEMINI_API_KEY=none\n')
      setup('gemini')
      // What the guide says for tools without prompts.
      const settings = JSON.parse(readFileSync(file, 'utf8'))
      settings.mcpServers.outlive.trust = true
      write(file, settings)
    },
    env: model => ({ GEMINI_API_KEY: 'none', GOOGLE_GEMINI_BASE_URL: model.url, GEMINI_CLI_TRUST_WORKSPACE: 'true' }),
    arguments: () => ['-p', PROMPT, '-m', 'gemini-2.5-pro'],
    resume: program => `${program} -m gemini-2.5-pro --resume latest -p "The notice of a background job is above."`,
    wake: ONCE,
  },
  {
    name: 'opencode',
    package: 'opencode-ai@1.18.33',
    program: 'node_modules/.bin/opencode',
    hasFile: true,
    prepare({ home, model, setup }) {
      write(join(home, '.config/opencode/opencode.json'), {
        $schema: 'https://opencode.ai/config.json',
        autoupdate: false,
        provider: { scripted: { npm: '@ai-sdk/openai-compatible', name: 'scripted', options: { baseURL: `${model.url}/v1`, apiKey: 'none' }, models: { scripted: { name: 'scripted', tool_call: true } } } },
      })
      setup('opencode')
    },
    env: () => ({ OPENCODE_DISABLE_MODELS_FETCH: '1', OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_LSP_DOWNLOAD: '1' }),
    arguments: () => ['run', '-m', 'scripted/scripted', PROMPT],
    wake: {
      how: 'idle in a server, by its plugin',
      async start({ start, program, until }) {
        const agent = start(program, ['serve', '--port', '0', '--hostname', '127.0.0.1'])
        const listens = () => /listening on (http:\S+)/.exec(agent.output())
        await until(() => `it listens: ${agent.shown()}`, () => listens() || agent.hasEnded())
        const post = async (path, body) => {
          const answer = await fetch(`${listens()[1]}${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
          if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
          return answer
        }
        const session = await (await post('/session', {})).json()
        await post(`/session/${session.id}/prompt_async`, { model: { providerID: 'scripted', modelID: 'scripted' }, parts: [{ type: 'text', text: PROMPT }] })
        return agent
      },
    },
  },
  {
    name: 'goose',
    package: '@aaif/goose-binary-linux-x64@1.52.0',
    program: 'node_modules/@aaif/goose-binary-linux-x64/bin/goose',
    hasFile: true,
    prepare({ setup }) {
      setup('goose')
    },
    env: model => ({ GOOSE_PROVIDER: 'openai', GOOSE_MODEL: 'gpt-4o', GOOSE_MODE: 'auto', GOOSE_DISABLE_KEYRING: '1', GOOSE_TELEMETRY_ENABLED: 'false', OPENAI_HOST: model.url, OPENAI_API_KEY: 'none' }),
    arguments: () => ['run', '-t', PROMPT],
    wake: ONCE,
  },
  {
    name: 'qwen',
    package: '@qwen-code/qwen-code@0.24.4',
    program: 'node_modules/.bin/qwen',
    hasFile: true,
    prepare({ home, setup }) {
      const file = join(home, '.qwen/settings.json')
      write(file, { security: { auth: { selectedType: 'openai' } }, privacy: { usageStatisticsEnabled: false } })
      setup('qwen')
      // What the guide says for tools without prompts.
      const settings = JSON.parse(readFileSync(file, 'utf8'))
      settings.mcpServers.outlive.trust = true
      write(file, settings)
    },
    env: model => ({ OPENAI_BASE_URL: `${model.url}/v1`, OPENAI_API_KEY: 'none', OPENAI_MODEL: 'scripted' }),
    arguments: () => ['-p', PROMPT],
    wake: ONCE,
  },
  {
    name: 'copilot',
    package: '@github/copilot@1.0.102',
    program: 'node_modules/.bin/copilot',
    hasFile: true,
    prepare({ setup }) {
      setup('copilot')
    },
    env: model => ({ COPILOT_PROVIDER_BASE_URL: `${model.url}/v1`, COPILOT_MODEL: 'gpt-4o', COPILOT_AUTO_UPDATE: 'false' }),
    arguments: () => ['-p', PROMPT, '--allow-tool', 'outlive'],
    wake: ONCE,
  },
]
