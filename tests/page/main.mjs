// What people do with the page, in a real browser.

import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { holdsMuch } from './flood.mjs'
import { findsMore, reads, readsLong } from './log.mjs'
import { seesMachines } from './machines.mjs'
import { answers, types, walks } from './typing.mjs'
import { LIMIT, World } from './world.mjs'

const at = process.argv.indexOf('--pictures')
const pictures = at > 0 ? process.argv[at + 1] : null
const HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>\\033]0;<script>window.hacked=1</script>\\007\\033[31m&amp;<b>bold</b>\\033[0m'

const world = new World()
const photograph = async (page, name) => { if (pictures) await page.screenshot({ path: join(pictures, `${name}.png`) }) }
const say = (text) => console.log(`  ${text}`)
const until = (page, what, argument) => page.waitForFunction(what, argument, { timeout: LIMIT })

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
  const isClean = async (where) => {
    assert.equal(await page.evaluate(() => window.hacked), undefined, where)
    assert.equal(await page.locator('main b, main script, main img, dialog img, #toasts img').count(), 0, where)
  }
  const tabs = async () => {
    for (const tab of ['log', 'events', 'facts', 'recording', 'terminal']) {
      await page.click(`#tab-${tab}`)
      await page.waitForTimeout(300)
      await isClean(tab)
    }
  }
  await tabs()
  // Its name, its question, and what is said of it.
  const name = '<img src=x onerror="window.hacked=1">'
  world.run(name, `printf '${HOSTILE}? '; read a; exec sleep 600`, '--pty', '--label', 'x=<b>y</b>')
  await world.go(page, name)
  await until(page, () => document.querySelector('.ask label')?.textContent.includes('<b>bold</b>'))
  await tabs()
  await page.getByRole('button', { name: 'End', exact: true }).click()
  await isClean('dialog')
  await page.getByRole('button', { name: 'End it' }).click()
  await until(page, () => document.querySelector('.pill').textContent.includes('killed'))
  for (const view of ['queues', 'schedules', 'projects']) {
    await page.click(`nav a[href="#/${view}"]`)
    await page.waitForTimeout(300)
    await isClean(view)
  }
  await world.go(page)
  await isClean('list')
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
run = "echo 'the table is missing <img src=x onerror=window.hacked=1>'; exit 3"
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
  assert.equal(await page.evaluate(() => window.hacked), undefined)
  assert.equal(await page.locator('.reasons img').count(), 0)
  await photograph(page, 'projects')
  await page.click('nav a[href="#/queues"]')
  await until(page, () => document.querySelector('.card ol')?.children.length === 2)
  await page.getByRole('button', { name: 'Pause' }).click()
  await until(page, () => document.querySelector('.card .pill')?.textContent === 'paused')
  assert.equal(world.json('queue', 'list')[0].paused, true)
  await page.getByRole('button', { name: 'Resume' }).click()
  await until(page, () => !document.querySelector('.card .pill'))
  // A number is typed in place of the one that is there, also if the view is drawn anew in between.
  await page.locator('.many input').selectText()
  world.outlive('queue', 'pause', 'builds')
  await until(page, () => document.querySelector('.card .pill')?.textContent === 'paused')
  world.outlive('queue', 'resume', 'builds')
  await until(page, () => !document.querySelector('.card .pill'))
  await page.keyboard.type('2')
  await page.keyboard.press('Tab')
  await until(page, () => document.querySelector('.card ol')?.children.length === 1)
  await page.click('.card ul.ids a')
  await page.waitForSelector('header.job')
  await page.context().close()
  say('projects with what waits for what and why, queues')
}

async function repeats() {
  world.run('report', './make-report --for accounting', '--at', '18:00')
  world.run('backup', 'echo saved', '--every', '1s')
  const page = await world.page()
  // In the list, when it comes; a job that waits has not started.
  await until(page, () => [...document.querySelectorAll('li.row')].some((row) => row.querySelector('.name').textContent === 'report' && /^(in \d|within a minute)/.test(row.querySelector('.started').textContent)))
  await page.click('nav a[href="#/schedules"]')
  const card = (name) => page.locator(`.card[aria-label="Schedule of ${name}"]`)
  await card('backup').locator('.runs li[data-mood=completed]').nth(2).waitFor()
  assert.match(await card('backup').innerText(), /every 1s/)
  assert.match(await card('report').innerText(), /18:00[\s\S]*has not run yet/)
  await photograph(page, 'schedules')
  await card('backup').getByRole('button', { name: 'End' }).click()
  await page.getByRole('button', { name: 'End it' }).click()
  await card('backup').waitFor({ state: 'detached' })
  await until(page, () => document.querySelectorAll('.card').length === 1)
  await page.context().close()
  say('schedules: what comes next, how the last runs went, ending one')
}

async function leads() {
  world.run('sized', "trap 'stty size' WINCH; stty size; while :; do sleep 0.1; done", '--pty', '--size', '80x24')
  const page = await world.page()
  const other = await world.page({ viewport: { width: 700, height: 700 } })
  const shows = (one, text) => until(one, (text) => document.querySelector('.panel .found')?.textContent === text, text)
  const columns = (one) => one.evaluate(() => Number.parseInt(document.querySelector('.screen').style.width, 10))
  for (const one of [page, other]) {
    await world.go(one, 'sized')
    await until(one, () => document.querySelector('.screen')?.textContent.includes('24 80'))
  }
  await page.getByRole('button', { name: 'Lead' }).click()
  await shows(page, 'this window leads')
  const wide = await columns(page)
  assert.ok(wide > 100, `${wide} columns`)
  await until(page, (wide) => document.querySelector('.screen').textContent.includes(` ${wide}`), wide)
  // It follows the window.
  await page.setViewportSize({ width: 1000, height: 800 })
  await until(page, (wide) => Number.parseInt(document.querySelector('.screen').style.width, 10) < wide, wide)
  await shows(page, 'this window leads')
  await photograph(page, 'lead')
  // The one that was used last counts, as with `outlive attach`.
  await other.getByRole('button', { name: 'Lead' }).click()
  await shows(other, 'this window leads')
  await shows(page, 'another window leads')
  await page.keyboard.type('x')
  await shows(page, 'this window leads')
  await shows(other, 'another window leads')
  for (const one of [page, other]) await one.getByRole('button', { name: 'Lead' }).click()
  await until(page, () => document.querySelector('.screen').style.width === '80ch')
  await Promise.all([page, other].map((one) => one.context().close()))
  world.outlive('kill', '--force', 'sized')
  say('the window that leads sets the size of a terminal')
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
  await photograph(page, 'recording')
  await page.context().close()
  say('the screen at any time')
}

async function isAccessible() {
  const found = []
  world.run('asks', 'stty -echo; printf "Password: "; read p; exec sleep 600', '--pty')
  const sizes = [['light', 1280, 1], ['dark', 1280, 1], ['light', 320, 1], ['dark', 640, 2]]
  for (const [colorScheme, width, deviceScaleFactor] of sizes) {
    const page = await world.page({ colorScheme, viewport: { width, height: 900 }, deviceScaleFactor })
    await until(page, () => document.querySelectorAll('li.row').length > 3)
    const check = async (where) => {
      found.push(...(await world.violations(page)).map((one) => `${where}, ${colorScheme}, ${width}: ${one}`))
      if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) found.push(`${where} scrolls sideways at ${width}`)
    }
    await check('list')
    await page.fill('#search', 'nothing has this')
    await check('no job fits')
    await page.fill('#search', '')
    for (const key of ['start', 'help']) {
      await page.click(`#${key}`)
      await check(key)
      await page.keyboard.press('Escape')
    }
    await world.go(page, 'asks')
    await until(page, () => document.querySelector('#answer')?.type === 'password')
    await check('a question')
    await page.getByRole('button', { name: 'End', exact: true }).click()
    await check('ending a job')
    await page.keyboard.press('Escape')
    await world.go(page, 'tests')
    await page.fill('.panel input[type=search]', 'PASS')
    await page.click('[data-key=times]')
    await until(page, () => document.querySelectorAll('.jump').length > 3)
    await check('what was found')
    await page.getByRole('button', { name: 'Copy' }).click()
    await page.waitForSelector('.toast')
    await check('a message')
    await page.evaluate(() => { location.hash = '#/job/nothing' })
    await page.waitForSelector('.empty h1')
    await check('no such job')
    await page.evaluate(() => { location.hash = '#/' })
    for (const view of ['projects', 'queues', 'schedules', 'machines']) {
      await page.click(`nav a[href="#/${view}"]`)
      // No other machine is named here: `seesMachines` has some.
      await page.waitForSelector(view === 'machines' ? '.cards .empty' : '.card')
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
    await page.context().clearCookies()
    await page.reload()
    await page.waitForSelector('.empty h1')
    await check('signed out')
    await page.context().close()
  }
  assert.deepEqual(found, [])
  // What was asked for on purpose: a job that is not there, and without a token.
  world.problems = world.problems.filter((text) => !/status of (401|404)/.test(text))
  world.outlive('kill', '--force', 'asks')
  say('axe finds nothing: light and dark, 1280, 640 and 320 px, every view')
}

// The same over TLS, as for a phone: the page, its events and a terminal.
async function travels() {
  const other = new World()
  other.browser = world.browser
  const files = ['cert.pem', 'key.pem'].map((name) => join(other.home, name))
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=outlive', '-addext', 'subjectAltName=DNS:localhost', '-out', files[0], '-keyout', files[1]], { stdio: 'ignore' })
  const server = spawn(process.env.OUTLIVE_TEST_PROGRAM, ['--json', 'serve', '--tcp=127.0.0.1', '--tls', ...files], { env: other.environment, stdio: ['ignore', 'pipe', 'inherit'] })
  const over = once(server, 'exit')
  try {
    await once(server.stdout, 'data')
    other.run('far', 'read a; echo "got $a"; exec sleep 600', '--pty')
    const page = await other.page({ ignoreHTTPSErrors: true })
    assert.match(page.url(), /^https:\/\/localhost:/)
    await until(page, () => document.getElementById('link').dataset.state === 'live')
    await other.go(page, 'far')
    await page.click('.terminal')
    await page.keyboard.type('hello')
    await page.keyboard.press('Enter')
    await until(page, () => document.querySelector('.screen')?.textContent.includes('got hello'))
    assert.ok((await page.context().cookies()).every((cookie) => cookie.secure && cookie.httpOnly))
    await page.context().close()
  } finally {
    other.browser = null
    await other.end()
    await over
  }
  assert.deepEqual(other.problems, [])
  say('the page over TLS')
}

async function takeEmpty() {
  mkdirSync(pictures, { recursive: true })
  for (const width of [360, 1280, 2560]) {
    const page = await world.page({ viewport: { width, height: 740 } })
    await page.waitForSelector('.empty h2')
    await photograph(page, `empty-${width}`)
    await page.context().close()
  }
}

async function takePictures() {
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
  if (pictures) await takeEmpty()
  await fill()
  if (pictures) await takePictures()
  const only = process.env.OUTLIVE_TEST_ONLY?.split(',')
  for (const step of [looks, acts, reads, readsLong, findsMore, types, answers, walks, survives, resists, belongs, repeats, leads, rewinds, seesMachines, travels, isAccessible, holdsMuch]) if (!only || only.includes(step.name)) await step(world, { until, say, photograph, pictures })
  assert.deepEqual(world.problems, [], 'the console is quiet')
} finally {
  await world.end()
}
console.log('the page passed')
