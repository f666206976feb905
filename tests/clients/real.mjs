// The real clients: how each is told of the server and of the model, and how it is started without a person.
//
// `outlive setup` enters the server: through the client's own command, or in its file where it `hasFile` and no such command.

import { mkdirSync, writeFileSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const write = (path, contents) => {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, typeof contents === 'string' ? contents : JSON.stringify(contents, null, 2))
}

const PROMPT = 'Follow the script.'

// Each: package (by which it is installed), program, prepare({home, model, setup}), env, arguments.
export const CLIENTS = [
  {
    name: 'claude',
    package: '@anthropic-ai/claude-code@2.1.325',
    program: 'node_modules/.bin/claude',
    prepare({ home, setup }) {
      setup('claude-code')
      // What the guide says for tools without prompts.
      write(join(home, '.claude/settings.json'), { permissions: { allow: ['mcp__outlive'] } })
    },
    env: model => ({ ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'none', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', DISABLE_AUTOUPDATER: '1' }),
    arguments: () => ['-p', PROMPT, '--model', 'claude-sonnet-4-5'],
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
  },
  {
    name: 'gemini',
    package: '@google/gemini-cli@0.61.0',
    program: 'node_modules/.bin/gemini',
    prepare({ home, setup }) {
      const file = join(home, '.gemini/settings.json')
      write(file, { security: { auth: { selectedType: 'gemini-api-key' } }, privacy: { usageStatisticsEnabled: false } })
      setup('gemini')
      // What the guide says for tools without prompts.
      const settings = JSON.parse(readFileSync(file, 'utf8'))
      settings.mcpServers.outlive.trust = true
      write(file, settings)
    },
    env: model => ({ GEMINI_API_KEY: 'none', GOOGLE_GEMINI_BASE_URL: model.url, GEMINI_CLI_TRUST_WORKSPACE: 'true' }),
    arguments: () => ['-p', PROMPT, '-m', 'gemini-2.5-pro'],
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
  },
]
