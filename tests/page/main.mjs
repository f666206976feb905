// What people do with the page, in a real browser.

import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
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

async function belongs() {
  const place = join(world.home, 'shop')
  mkdirSync(place)
  writeFileSync(join(place, 'outlive.toml'), `[jobs.db]
run = "echo accepts connections; exec sleep 600"
ready = { line = "accepts" }

[jobs.api]
run = "echo listens; exec sleep 600"
after = ["db"]

[jobs.seed]
run = "echo the table is missing; exit 3"
after = ["db"]

[jobs.web]
run = "exec sleep 600"
after = ["api", "seed@succeeded"]
`)
  try { world.outlive('up', '--file', join(place, 'outlive.toml')) } catch { /* one of its jobs fails, as it should */ }
  for (const number of [1, 2, 3]) world.run(`built-${number}`, 'exec sleep 600', '--queue', 'builds')
  const page = await world.page()
  await page.click('nav a[href="#/projects"]')
  await until(page, () => document.querySelectorAll('.graph g').length === 4 && document.querySelectorAll('.graph .edge').length === 4)
  await until(page, () => /failed/.test(document.querySelector('.members').textContent))
  await page.click('button[aria-label="Why is web as it is"]')
  await until(page, () => /seed/.test(document.querySelector('.reasons')?.textContent) && /table is missing/.test(document.querySelector('.reasons').textContent))
  if (pictures) await page.screenshot({ path: join(pictures, 'projects.png') })
  await page.click('nav a[href="#/queues"]')
  await until(page, () => document.querySelector('.card ol')?.children.length === 2)
  await page.getByRole('button', { name: 'Pause' }).click()
  await until(page, () => document.querySelector('.card .pill')?.textContent === 'paused')
  assert.equal(world.json('queue', 'list')[0].paused, true)
  await page.getByRole('button', { name: 'Resume' }).click()
  await page.fill('.many input', '2')
  await page.keyboard.press('Tab')
  await until(page, () => document.querySelector('.card ol')?.children.length === 1)
  await page.click('.card ul.ids a')
  await page.waitForSelector('header.job')
  await page.context().close()
  say('projects with what waits for what and why, queues')
}

async function rewinds() {
  world.run('film', 'for i in 1 2 3 4 5 6 7 8; do printf "\\033[2J\\033[Hframe \\033[3${i}m$i\\033[0m"; sleep 0.25; done; exec sleep 600', '--pty')
  const page = await world.page()
  await world.go(page, 'film')
  await until(page, () => document.querySelector('.screen')?.textContent.includes('frame 8'))
  await page.click('#tab-recording')
  await until(page, () => document.querySelector('.screen')?.textContent.includes('frame 8'))
  await page.locator('input[type=range]').fill('0')
  await until(page, () => !document.querySelector('.screen').textContent.includes('frame 8'))
  // By keyboard alone, to a screen in between.
  await page.locator('input[type=range]').focus()
  for (let step = 0; step < 1000; step += 1) {
    await page.keyboard.press('ArrowRight')
    if (step % 10 === 9 && /frame [2-6]/.test(await page.locator('.screen').innerText())) break
  }
  await until(page, () => /frame [2-7]/.test(document.querySelector('.screen').textContent))
  assert.notEqual(await page.getAttribute('input[type=range]', 'aria-valuetext'), null)
  await page.getByRole('button', { name: 'Play' }).click()
  await until(page, () => document.querySelector('.screen').textContent.includes('frame 8'))
  if (pictures) await page.screenshot({ path: join(pictures, 'recording.png') })
  await page.context().close()
  say('the screen at any time')
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
    for (const view of ['projects', 'queues']) {
      await page.click(`nav a[href="#/${view}"]`)
      await page.waitForSelector('.card')
      await check(view)
    }
    for (const [job, tabs] of [['tests', ['log', 'events', 'facts']], ['hostile', ['terminal', 'recording']]]) {
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
  for (const step of [looks, acts, survives, resists, belongs, rewinds, isAccessible, holdsMuch]) await step()
  assert.deepEqual(world.problems, [], 'the console is quiet')
} finally {
  await world.end()
}
console.log('the page passed')
