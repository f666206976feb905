// What people type: composed characters, passwords, and everything by keyboard alone.

import assert from 'node:assert/strict'

const active = (page) => page.evaluate(() => { const { id, className, textContent, tagName } = document.activeElement; return id || className || textContent.trim() || tagName })

export async function types(world, { until, say }) {
  world.run('typed-in', 'stty -echo; while read a; do printf "%s|<- 20 columns\\n" "$a"; done', '--pty', '--size', '60x16')
  const page = await world.page()
  await world.go(page, 'typed-in')
  await page.click('.terminal')
  // An input method shows what it composes and then inserts it; only that is sent.
  const session = await page.context().newCDPSession(page)
  await session.send('Input.imeSetComposition', { text: 'にほ', selectionStart: 2, selectionEnd: 2 })
  await session.send('Input.imeSetComposition', { text: '日本', selectionStart: 2, selectionEnd: 2 })
  await session.send('Input.insertText', { text: '日本' })
  await page.keyboard.press('Enter')
  await until(page, () => document.querySelector('.screen').textContent.includes('日本|'))
  assert.ok(!(await page.locator('.screen').innerText()).includes('に'), 'what was only composed is not sent')
  // What comes after wide characters, emoji and marks stands in its column.
  for (const text of ['plain', '日本語', '🎉🚀', '👩‍💻', '🇩🇪', 'e\u0301a\u0308', '한글', '✅', '❤️', '⌚x']) {
    await page.evaluate((text) => { const data = new DataTransfer(); data.setData('text', text); document.querySelector('.typed').dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true })) }, text)
    await page.keyboard.press('Enter')
    await until(page, (text) => document.querySelector('.screen').textContent.includes(`${text}|`), text)
  }
  const { stored, drawn } = await page.evaluate(async () => {
    const screen = document.querySelector('.screen')
    const cell = screen.getBoundingClientRect().width / 60
    const left = screen.getBoundingClientRect().left
    const drawn = []
    for (const [number, row] of [...screen.children].entries()) {
      const walker = document.createTreeWalker(row, NodeFilter.SHOW_TEXT)
      for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const at = node.textContent.indexOf('|')
        if (at < 0) continue
        const range = document.createRange()
        range.setStart(node, at)
        range.setEnd(node, at + 1)
        drawn.push([number, (range.getBoundingClientRect().left - left) / cell])
      }
    }
    return { drawn, stored: (await (await fetch(`v1/jobs/${location.hash.split('/')[2]}/screen?styled=true`)).json()).rows }
  })
  assert.ok(drawn.length >= 10, `${drawn.length} rows`)
  for (const [row, column] of drawn) {
    // The server's emulator decides how wide a text is; the page must draw it so.
    const text = stored[row].split('|')[0]
    assert.ok(Math.abs(column - Math.round(column)) < 0.05, `${JSON.stringify(text)} ends at column ${column}`)
  }
  const widths = new Map(drawn.map(([row, column]) => [stored[row].split('|')[0], Math.round(column)]))
  for (const [text, width] of [['plain', 5], ['日本語', 6], ['🎉🚀', 4], ['한글', 4], ['✅', 2]]) assert.equal(widths.get(text), width, text)
  // It is text: selected, found and copied as such.
  await page.locator('.cells').first().selectText()
  assert.match(await page.evaluate(() => getSelection().toString()), /日本\|/)
  await page.context().close()
  world.outlive('kill', '--force', 'typed-in')
  say('composed input; wide characters, emoji and marks in their columns')
}

export async function answers(world, { until, say }) {
  world.run('secret', 'stty -echo; printf "Password: "; read p; stty echo; echo; echo "${#p} letters"; exec sleep 600', '--pty')
  const page = await world.page()
  await world.go(page, 'secret')
  await until(page, () => document.querySelector('#answer')?.type === 'password' && document.querySelector('.ask').textContent.includes('Password:'))
  await page.fill('#answer', 'hunter2')
  await page.keyboard.press('Enter')
  await until(page, () => document.querySelector('.screen').textContent.includes('7 letters'))
  await until(page, () => document.querySelector('.ask').hidden)
  await page.click('#tab-log')
  await until(page, () => document.querySelectorAll('.line').length > 1)
  assert.ok(!(await page.content()).includes('hunter2'), 'the password is nowhere in the page')
  const press = (name) => page.getByRole('button', { name, exact: true }).click()
  await press('Rename')
  await page.fill('[name=name]', 'vault')
  await page.keyboard.press('Enter')
  await until(page, () => document.querySelector('h1').textContent === 'vault')
  const first = page.url()
  await press('Restart')
  await page.waitForURL((url) => url.href !== first)
  await until(page, () => document.querySelector('.pill')?.textContent.includes('asks for a password'))
  assert.equal(world.json('show', new URL(page.url()).hash.split('/')[2]).previous, new URL(first).hash.split('/')[2])
  await press('End')
  await page.selectOption('[name=how]', 'force')
  await press('End it')
  await until(page, () => document.querySelector('.pill').textContent.includes('killed'))
  // Removed for good: out of the list at once, and out of the store a moment later.
  const gone = new URL(page.url()).hash.split('/')[2]
  await press('Remove')
  await until(page, (gone) => document.querySelector('.jobs') && ![...document.querySelectorAll('.name')].some((name) => name.href.endsWith(gone)), gone)
  for (let round = 0; world.json('list').some((job) => job.job === gone); round += 1) {
    assert.ok(round < 600, 'it is still there')
    await page.waitForTimeout(100)
  }
  await page.context().close()
  say('a password, a new name, another run, an end by force, a removal')
}

// From the address bar to a terminal and back, without a mouse.
export async function walks(world, { until, say }) {
  world.run('walked', 'read a; echo "got $a"; exec sleep 600', '--pty')
  const page = await world.page()
  await until(page, () => [...document.querySelectorAll('.name')].some((name) => name.textContent === 'walked'))
  const seen = []
  const tab = async (key = 'Tab') => { await page.keyboard.press(key); seen.push(await active(page)) }
  for (let step = 0; step < 13; step += 1) await tab()
  assert.match(seen.join(' > '), /^skip > brand > Jobs > Projects > Queues > Schedules > Machines > help > start > All ?\d+ > Live ?\d+ > Asking ?\d+ > Failed ?\d+$/)
  await page.evaluate(() => document.activeElement.blur())
  await page.keyboard.press('/')
  await page.keyboard.type('walked')
  await until(page, () => document.querySelectorAll('li.row').length === 1)
  await tab()
  assert.match(seen.at(-1), /name/)
  assert.ok(await page.evaluate(() => getComputedStyle(document.activeElement.closest('li')).outlineStyle !== 'none'), 'what has the focus is seen')
  await page.keyboard.press('Enter')
  await page.waitForSelector('.terminal .cells')
  await page.evaluate(() => document.querySelector('.back').focus())
  // Through all that can be done, past the tabs, into the terminal.
  seen.length = 0
  while (seen.at(-1) !== 'typed' && seen.length < 30) await tab()
  assert.match(seen.join(' > '), /^Rename > Pause > Restart > danger > command > answer > primary > tab-terminal > Fit to window > Lead > Ctrl-C > (.* > )?typed$/)
  await page.keyboard.type('by hand')
  await page.keyboard.press('Enter')
  await until(page, () => document.querySelector('.screen').textContent.includes('got by hand'))
  // Tab is the program's, Shift and Tab lead out.
  await page.keyboard.press('Tab')
  assert.equal(await active(page), 'typed')
  await tab('Shift+Tab')
  assert.notEqual(seen.at(-1), 'typed')
  await page.focus('#tab-terminal')
  await page.keyboard.press('ArrowRight')
  assert.equal(await active(page), 'tab-recording')
  await page.keyboard.press('ArrowLeft')
  await page.keyboard.press('ArrowLeft')
  assert.equal(await active(page), 'tab-log')
  await page.keyboard.press('?')
  await page.waitForSelector('dialog[open]')
  await page.keyboard.press('Escape')
  await page.waitForSelector('dialog', { state: 'detached' })
  await page.keyboard.press('Escape')
  await page.waitForSelector('.jobs')
  await page.keyboard.press('n')
  await page.waitForSelector('dialog[open]')
  await page.keyboard.type('echo started by hand')
  await page.keyboard.press('Enter')
  await until(page, () => document.querySelector('.line .text')?.textContent === 'started by hand')
  // What happens is said to those who do not see it.
  await until(page, () => /completed/.test(document.getElementById('live').textContent))
  await page.context().close()
  world.outlive('kill', '--force', 'walked')
  say('by keyboard alone: the order of Tab, keys, into a terminal and out of it, and what is said aloud')
}
