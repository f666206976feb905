// Other machines on the page: one that answers, the same when it is gone, and one that was never reached.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { World } from './world.mjs'

export async function seesMachines(world, { until, say, photograph }) {
  const there = new World()
  const serve = async () => {
    const server = spawn(process.env.OUTLIVE_TEST_PROGRAM, ['--json', 'serve'], { env: there.environment, stdio: ['ignore', 'pipe', 'inherit'] })
    const over = once(server, 'exit')
    await once(server.stdout, 'data')
    return { end: () => { server.kill('SIGTERM'); return over } }
  }
  let server
  const here = new World()
  here.browser = world.browser
  try {
    const empty = await here.page()
    await empty.click('nav a[href="#/machines"]')
    await until(empty, () => document.querySelector('.empty h2')?.textContent === 'No other machine')
    await empty.context().close()
    process.kill(here.json('open').pid, 'SIGTERM')
    writeFileSync(join(here.environment.OUTLIVE_HOME, 'config.toml'), `[hosts.gpu1]
address = "unix://${there.environment.OUTLIVE_HOME}"

[hosts.gone]
address = "unix://${join(here.home, 'nothing')}"
`)
    const trains = there.run('train', 'echo epoch 1; exec sleep 600')
    there.run('broken', 'exit 3')
    there.outlive('run', '--name', '<img src=x onerror="window.hacked=1">', '--wait', 'true')
    server = await serve()
    const page = await here.page()
    await page.click('nav a[href="#/machines"]')
    const card = (name) => page.locator(`.card[aria-label="Machine ${name}"]`)
    await card('gpu1').locator('li').nth(2).waitFor()
    // One that answers: what runs there, and what has ended there.
    const shown = await card('gpu1').innerText()
    assert.match(shown, new RegExp(`reachable[^]*1 live[^]*gpu1/${trains}[^]*running[^]*ended[^]*failed: 3`))
    assert.doesNotMatch(shown, /unreachable|last seen/)
    assert.equal(await page.evaluate(() => window.hacked), undefined)
    assert.equal(await page.locator('main img').count(), 0)
    // One that was never reached: why, and nothing of its jobs.
    const never = await card('gone').innerText()
    assert.match(never, /unreachable/)
    assert.doesNotMatch(never, /\blive\b|\bended\b|\bago\b/)
    await photograph(page, 'machines')
    assert.deepEqual(await world.violations(page), [])
    // What happens there comes by itself; what cannot be reached is not told as ended.
    there.run('late', 'exec sleep 600')
    await until(page, () => /2 live/.test(document.querySelector('.card[aria-label="Machine gpu1"]').textContent))
    await server.end()
    server = null
    await until(page, () => /2 live when last seen/.test(document.querySelector('.card[aria-label="Machine gpu1"]').textContent))
    assert.match(await card('gpu1').innerText(), new RegExp(`unreachable, last seen [^]* ago[^]*gpu1/${trains}[^]*unreachable, running \\d[^]* ago`))
    await photograph(page, 'machines-unreachable')
    server = await serve()
    await until(page, () => !/unreachable/.test(document.querySelector('.card[aria-label="Machine gpu1"]').textContent))
    await page.context().close()
  } finally {
    await server?.end()
    here.browser = null
    await here.end()
    await there.end()
  }
  assert.deepEqual(here.problems, [])
  say('other machines: one that answers, that is gone and comes back, and one that was never there')
}
