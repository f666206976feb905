// A home with jobs, a browser, and what both need.

import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

const packages = process.env.OUTLIVE_TEST_PACKAGES
const { chromium } = createRequire(join(packages, 'x.js'))('playwright-core')
const axe = readFileSync(join(packages, 'axe-core/axe.min.js'), 'utf8')

// Nothing here is waited for in vain for longer; no test depends on how long something takes.
export const LIMIT = 180_000

export class World {
  constructor() {
    this.home = mkdtempSync(join(tmpdir(), 'outlive-page-'))
    this.environment = { PATH: process.env.PATH, HOME: this.home, OUTLIVE_HOME: join(this.home, 'store'), LC_ALL: 'C.UTF-8', TERM: 'xterm-256color' }
    this.problems = []
  }

  outlive(...words) {
    return execFileSync(process.env.OUTLIVE_TEST_PROGRAM, words, { encoding: 'utf8', cwd: this.home, env: this.environment, stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 1 << 28 })
  }

  json(...words) {
    return JSON.parse(this.outlive('--json', ...words))
  }

  run(name, line, ...options) {
    return this.outlive('run', '--name', name, ...options, line).trim()
  }

  async start() {
    const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--enable-precise-memory-info']
    this.browser = await chromium.launch({ executablePath: process.env.OUTLIVE_TEST_BROWSER, args: flags })
  }

  // Opens the page, signed in by a link of its own.
  async page(options = {}, scope = 'drive') {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 900 }, ...options })
    if (process.env.OUTLIVE_TEST_PAGE) {
      // While the page is worked on: its files as they are now, without a build.
      await context.route(/\/[a-z]+\.(js|css)$/, (route) => route.fulfill({ path: join(resolve(process.env.OUTLIVE_TEST_PAGE), new URL(route.request().url()).pathname) }))
    }
    context.setDefaultTimeout(LIMIT)
    const page = await context.newPage()
    page.on('pageerror', (error) => this.problems.push(error.message))
    page.on('console', (message) => {
      // A server that is killed breaks connections, as it should.
      if (message.type() === 'error' && !/net::|WebSocket/.test(message.text())) this.problems.push(message.text())
    })
    await page.goto(this.json('open', '--scope', scope).link)
    await page.waitForFunction(() => document.querySelector('#main > *'))
    return page
  }

  async go(page, job) {
    const id = job && this.json('list').find((one) => one.name === job).job
    await page.evaluate((hash) => { location.hash = hash }, id ? `#/job/${id}` : '#/')
    await page.waitForSelector(id ? 'header.job' : '.jobs')
  }

  // What axe finds; through the protocol, which the policy of the page does not bind.
  async violations(page) {
    await page.evaluate(axe)
    // What rises into view has its own colours when it is there.
    await page.evaluate(() => Promise.allSettled(document.getAnimations().filter((one) => one.effect.getComputedTiming().iterations !== Infinity).map((one) => one.finished)))
    return page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => `${node.target.join(' ')} (${node.any[0]?.message ?? ''})`).slice(0, 3).join('; ')}`)))
  }

  // What the largest process of a page holds, in MB; what several share counts in parts.
  async memory() {
    const session = await this.browser.newBrowserCDPSession()
    const { processInfo } = await session.send('SystemInfo.getProcessInfo')
    await session.detach()
    const held = (pid) => { try { return Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))[1]) } catch { return 0 } }
    return Math.max(...processInfo.filter((one) => one.type === 'renderer').map((one) => held(one.id))) * 1.024 / 1000
  }

  async end() {
    await this.browser?.close()
    let pid
    try { pid = this.json('open').pid } catch { /* there is none */ }
    if (pid) process.kill(pid, 'SIGTERM')
    try { this.outlive('kill', '--all', '--force') } catch { /* nothing is left */ }
    rmSync(this.home, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  }
}
