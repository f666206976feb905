// What people do with the page, in a real browser.

import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { World } from './world.mjs'

const at = process.argv.indexOf('--pictures')
const pictures = at > 0 ? process.argv[at + 1] : null
const seconds = Number(process.env.OUTLIVE_TEST_FLOOD ?? 10)
const HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>\\033]0;<script>window.hacked=1</script>\\007\\033[31m&amp;<b>bold</b>\\033[0m'

const world = new World()
const say = (text) => console.log(`  ${text}`)
const until = (page, what, argument) => page.waitForFunction(what, argument, { timeout: 60000 })

async function fill() {
  world.run('web', 'python3 -m http.server 0 --bind 127.0.0.1')
  world.run('api', 'while true; do echo "GET /orders 200"; sleep 0.5; done', '--session', 'shop')
  world.run('tests', 'for i in $(seq 1 60); do printf "\\033[32mPASS\\033[0m orders::test_%02d\\n" $i; done; printf "\\033[31mFAIL\\033[0m orders::empty_cart\\n" >&2; exit 1')
  world.run('deploy', 'printf "Deploy to production? [y/N] "; read a; echo "answer: $a"; exec sleep 600', '--pty')
  world.run('migrate', 'echo "applied 12 migrations"')
}

async function looks() {
  const page = await world.page()
  await until(page, () => document.querySelectorAll('li.row').length === 5)
  assert.equal(new URL(page.url()).hash, '#/', 'the secret is gone from the address')
  await until(page, () => document.querySelector('.ports a')?.href.startsWith('http://localhost:'))
  await page.keyboard.press('/')
  await page.keyboard.type('tests')
  await until(page, () => document.querySelectorAll('li.row').length === 1)
  for (const key of ['Escape', 'j', 'Enter']) await page.keyboard.press(key)
  await until(page, () => document.querySelectorAll('.line .text').length > 10)
  await page.fill('input[type=search]', 'fail')
  await until(page, () => document.querySelector('.found').textContent === '1 line')
  assert.equal(await page.locator('.line mark').innerText(), 'FAIL')
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByText('Download').click()])
  assert.match(download.suggestedFilename(), /^tests-.*\.log$/)
  await page.keyboard.press('Escape')
  await page.context().close()
  say('the list, its filter and keys, a log, its search and download')
}

async function acts() {
  const page = await world.page()
  await page.click('#start')
  await page.fill('[name=command]', 'read a; echo "got $a 日本 🎉"; exec sleep 600')
  await page.fill('[name=name]', 'typed')
  await page.check('[name=pty]')
  await page.click('[value=ok]')
  await page.waitForSelector('.terminal .cells')
  await page.click('.terminal')
  await page.keyboard.type('hello')
  await page.keyboard.press('Enter')
  await until(page, () => document.querySelector('.screen').textContent.includes('got hello'))
  const widths = await page.evaluate(() => [...document.querySelectorAll('.cells .box')].map((box) => box.style.width))
  assert.deepEqual(widths, ['2ch', '2ch', '2ch'])
  await page.keyboard.press('Shift+Tab')
  assert.notEqual(await page.evaluate(() => document.activeElement.className), 'typed', 'Shift and Tab lead out of a terminal')
  const press = (name) => page.getByRole('button', { name, exact: true }).click()
  const is = (word) => until(page, (word) => document.querySelector('.pill').textContent.includes(word), word)
  await press('Pause')
  await is('paused')
  await press('Resume')
  await press('End')
  await press('End it')
  await is('killed')
  await press('Remove')
  await press('Undo')
  await page.waitForTimeout(6500)
  assert.ok(world.json('list').some((job) => job.name === 'typed'), 'removing was undone')
  await world.go(page, 'deploy')
  await page.fill('#answer', 'y')
  await page.keyboard.press('Enter')
  await until(page, () => document.querySelector('.screen')?.textContent.includes('answer: y'))
  await page.context().close()
  const viewer = await world.page({}, 'view')
  await until(viewer, () => document.querySelectorAll('li.row').length > 3)
  assert.ok(await viewer.locator('#start').isHidden())
  await viewer.context().close()
  say('starting, typing, pausing, ending, undoing, answering; only looking with scope view')
}

async function survives() {
  const page = await world.page()
  const other = await world.page()
  await world.go(other, 'api')
  await until(other, () => document.querySelectorAll('.line').length > 1)
  process.kill(world.json('open').pid, 'SIGKILL')
  await until(page, () => document.getElementById('link').dataset.state === 'stale')
  world.run('meanwhile', 'sleep 600')
  world.json('open')
  for (const one of [page, other]) await until(one, () => document.getElementById('link').dataset.state === 'live')
  await until(page, () => [...document.querySelectorAll('.name')].some((name) => name.textContent === 'meanwhile'))
  const count = await other.evaluate(() => document.querySelector('.panel .foot').textContent)
  await until(other, (count) => document.querySelector('.panel .foot').textContent !== count, count)
  await Promise.all([page, other].map((one) => one.context().close()))
  say('two pages, while the server is killed and another comes')
}

async function resists() {
  world.run('hostile', `printf '${HOSTILE}\\n'; exec sleep 600`, '--pty')
  const page = await world.page()
  await world.go(page, 'hostile')
  await until(page, () => document.querySelector('.screen')?.textContent.includes('<b>bold</b>'))
  for (const tab of ['log', 'events', 'facts', 'terminal']) {
    await page.click(`#tab-${tab}`)
    await page.waitForTimeout(300)
  }
  await world.go(page)
  assert.equal(await page.evaluate(() => window.hacked), undefined)
  assert.equal(await page.locator('main b, main script, main img').count(), 0)
  await page.context().close()
  say('what a job prints is text on every view')
}

async function isAccessible() {
  const found = []
  const sizes = [['light', 1280, 1], ['dark', 1280, 1], ['light', 320, 1], ['dark', 640, 2]]
  for (const [colorScheme, width, deviceScaleFactor] of sizes) {
    const page = await world.page({ colorScheme, viewport: { width, height: 900 }, deviceScaleFactor })
    await until(page, () => document.querySelectorAll('li.row').length > 3)
    const check = async (where) => {
      found.push(...(await world.violations(page)).map((one) => `${where}, ${colorScheme}, ${width}: ${one}`))
      if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) found.push(`${where} scrolls sideways at ${width}`)
    }
    await check('list')
    await page.click('#start')
    await check('start')
    await page.keyboard.press('Escape')
    for (const [job, tabs] of [['tests', ['log', 'events', 'facts']], ['hostile', ['terminal']]]) {
      await world.go(page, job)
      for (const tab of tabs) {
        await page.click(`#tab-${tab}`)
        await page.waitForTimeout(500)
        await check(tab)
      }
    }
    await page.context().close()
  }
  assert.deepEqual(found, [])
  say('axe finds nothing: light and dark, 1280, 640 and 320 px, every view')
}

async function holdsMuch() {
  const page = await world.page()
  world.run('flood', `timeout ${seconds} sh -c 'yes "$(head -c 2000 /dev/zero | tr "\\0" x)" | head -c ${seconds}0000000; sleep 1'; timeout ${seconds} sh -c 'while true; do seq 1 150000; sleep 0.1; done'`)
  await page.evaluate(() => {
    window.tasks = []
    new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((entry) => entry.duration))).observe({ entryTypes: ['longtask'] })
  })
  await world.go(page, 'flood')
  await page.waitForTimeout((seconds + 1) * 1000)
  const { memory, longest, lines } = await page.evaluate(() => ({ memory: performance.memory.usedJSHeapSize, longest: Math.max(0, ...window.tasks), lines: document.querySelectorAll('.line').length }))
  assert.ok(memory < 300e6, `${memory} bytes`)
  assert.ok(lines < 200, `${lines} lines in the page`)
  const printed = world.json('show', 'flood').output.bytes
  assert.ok(printed > 1e6 * seconds, `${printed} bytes were printed`)
  say(`${Math.round(printed / 1e6)} MB of output in ${seconds} s: ${Math.round(memory / 1e6)} MB, longest task ${Math.round(longest)} ms, ${lines} lines in the page`)
  world.outlive('kill', '--force', 'flood')
  await page.keyboard.press('Escape')
  for (let number = 0; number < 1000; number += 1) world.run(`job-${number}`, 'true')
  await world.go(page)
  await until(page, () => document.querySelectorAll('li.row').length >= 1000)
  const begun = performance.now()
  await page.fill('#search', 'job-957')
  await until(page, () => document.querySelectorAll('li.row').length === 1)
  say(`1,000 jobs: filtered in ${Math.round(performance.now() - begun)} ms`)
  await page.fill('#search', '')
  if (pictures) await page.screenshot({ path: join(pictures, 'jobs-1000.png') })
  await page.context().close()
}

async function takePictures() {
  mkdirSync(pictures, { recursive: true })
  for (const [name, width, height, colorScheme, job] of [['page', 1280, 640, 'light'], ['page-dark', 1280, 640, 'dark'], ['phone', 360, 740, 'dark'], ['wide', 2560, 1200, 'light'], ['terminal', 1280, 800, 'light', 'deploy']]) {
    const page = await world.page({ viewport: { width, height }, colorScheme })
    if (job) await world.go(page, job)
    await page.waitForTimeout(7000)
    await page.screenshot({ path: join(pictures, `${name}.png`) })
    await page.context().close()
  }
}

try {
  await world.start()
  await fill()
  if (pictures) await takePictures()
  for (const step of [looks, acts, survives, resists, isAccessible, holdsMuch]) await step()
  assert.deepEqual(world.problems, [], 'the console is quiet')
} finally {
  await world.end()
}
console.log('the page passed')
