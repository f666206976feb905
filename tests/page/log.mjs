// What people do with a long log: scroll, find, follow, copy.

import assert from 'node:assert/strict'

export async function reads(world, { until, say }) {
  world.run('million', 'seq 1 1000000; echo "to stderr" >&2; exec sleep 600')
  const page = await world.page({ permissions: ['clipboard-read', 'clipboard-write'] })
  await world.go(page, 'million')
  await until(page, () => /1,000,001 lines/.test(document.querySelector('.panel .foot').textContent))
  // Each line that is shown is the one that its number says, wherever the bar is.
  const isTrue = () => until(page, () => {
    const lines = [...document.querySelectorAll('.line')]
    return lines.length > 10 && lines.length < 200 && lines.every((line) => line.querySelector('.text').textContent === (line.firstChild.textContent === '1000001' ? 'to stderr' : line.firstChild.textContent))
  })
  const begins = () => page.evaluate(() => Number(document.querySelector('.line').firstChild.textContent))
  await isTrue()
  assert.ok(await begins() > 999900, 'it follows the end')
  await page.focus('.lines')
  await page.keyboard.press('g')
  await until(page, () => document.querySelector('.line').firstChild.textContent === '1')
  await isTrue()
  assert.equal(await page.getAttribute('[data-key=follow]', 'aria-pressed'), 'false')
  for (const part of [0.25, 0.5, 0.9]) {
    await page.evaluate((part) => { const pane = document.querySelector('.lines'); pane.scrollTop = pane.scrollHeight * part }, part)
    await until(page, (part) => Math.abs(Number(document.querySelector('.line').firstChild.textContent) - part * 1e6) < 5000, part)
    await isTrue()
  }
  await page.mouse.move(600, 600)
  const before = await begins()
  await page.mouse.wheel(0, 500)
  await until(page, (before) => Number(document.querySelector('.line').firstChild.textContent) > before, before)
  await isTrue()
  // What is found leads to its place, by keyboard alone.
  await page.keyboard.press('/')
  await page.keyboard.type('77777')
  await until(page, () => document.querySelector('.found').textContent === '20 lines' || document.querySelector('.found').textContent === '19 lines')
  await page.locator('.jump').nth(1).focus()
  const wanted = await page.locator('.jump').nth(1).innerText()
  await page.keyboard.press('Enter')
  await until(page, (wanted) => [...document.querySelectorAll('.line')].some((line) => line.firstChild.textContent === wanted), wanted)
  await isTrue()
  assert.equal(await page.evaluate(() => document.activeElement.className), 'lines')
  // One stream; times; what is copied is what was printed.
  await page.selectOption('select[aria-label=Stream]', 'stderr')
  await until(page, () => document.querySelector('.found').textContent === '1 line')
  await page.getByRole('button', { name: 'Times' }).click()
  await until(page, () => /^\d\d:\d\d:\d\d\.\d{3}$/.test(document.querySelector('.line time').textContent))
  await page.getByRole('button', { name: 'Copy' }).click()
  await until(page, () => navigator.clipboard.readText().then((text) => text === 'to stderr'))
  await page.selectOption('select[aria-label=Stream]', '')
  await page.getByRole('button', { name: 'Copy' }).click()
  await until(page, () => navigator.clipboard.readText().then((text) => text.startsWith('990002\n') && text.endsWith('\n1000000\nto stderr')))
  await page.context().close()
  world.outlive('kill', '--force', 'million')
  say('a million lines: scrolled, found, followed, copied, by stream and with times')
}

export async function readsLong(world, { until, say }) {
  world.run('long', `python3 -c 'for line in range(1, 1001): print(line, "x" * 20000)'; exec sleep 600`)
  const page = await world.page()
  await world.go(page, 'long')
  await until(page, () => document.querySelector('.panel .foot').textContent.startsWith('1,000 lines'))
  for (const part of [1, 0.35, 0.7, 0]) {
    await page.evaluate((part) => { const pane = document.querySelector('.lines'); pane.scrollTop = pane.scrollHeight * part }, part)
    await until(page, (part) => {
      const lines = [...document.querySelectorAll('.line')].map((line) => [line.firstChild.textContent, line.querySelector('.text').textContent])
      return lines.length > 10 && Math.abs(Number(lines[0][0]) - part * 1000) < 50 && lines.every(([number, text]) => text.startsWith(`${number} xxx`) && / … 9.8 KiB more are in the download$/.test(text))
    }, part)
  }
  await page.context().close()
  world.outlive('kill', '--force', 'long')
  say('long lines: wherever the bar is, the beginning of each')
}

export async function findsMore(world, { until, say }) {
  world.run('grows', 'n=0; while read a; do n=$((n+1)); echo "match $n"; echo other; done', '--stdin', 'open')
  const page = await world.page()
  await world.go(page, 'grows')
  const none = () => page.evaluate(() => { const note = document.querySelector('.lines .empty'); return note.hidden ? '' : note.textContent })
  await until(page, () => document.querySelector('.lines .empty')?.textContent === 'It has printed nothing yet.')
  // Its input is a line at the top.
  const write = async (count) => {
    await page.fill('#answer', 'x')
    await page.keyboard.press('Enter')
    await until(page, (count) => document.querySelector('.panel .foot').textContent.startsWith(`${2 * count} lines`), count)
  }
  await write(1)
  assert.equal(await none(), '')
  await page.fill('.panel input[type=search]', 'not there')
  await until(page, () => document.querySelector('.lines .empty:not([hidden])')?.textContent === 'No line fits.')
  await page.fill('.panel input[type=search]', 'MATCH')
  await until(page, () => document.querySelector('.found').textContent === '1 line')
  await write(2)
  await until(page, () => document.querySelector('.found').textContent === '2 lines' && document.querySelectorAll('.line mark').length === 2)
  await page.fill('.panel input[type=search]', '')
  await until(page, () => document.querySelectorAll('.line').length === 4)
  // What is selected stays selected while more is printed.
  await page.locator('.line .text').first().selectText()
  world.outlive('send', 'grows', 'x')
  await until(page, () => document.querySelectorAll('.line').length === 6)
  assert.equal(await page.evaluate(() => getSelection().toString()), 'match 1')
  await page.getByRole('button', { name: 'Close its input' }).click()
  await until(page, () => document.querySelector('.pill').textContent.includes('completed'))
  await page.context().close()
  say('what is found grows with the log; input by hand and its end')
}
