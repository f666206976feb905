// Much at once: output at 10 MB a second, and 1,000 jobs.

import assert from 'node:assert/strict'

// OUTLIVE_TEST_FLOOD: for how long the floods print, all together.
const seconds = Number(process.env.OUTLIVE_TEST_FLOOD ?? 10)
const RATE = 1e7
// Lines of so many bytes, one flood after the other.
const LENGTHS = [200_000, 2000, 80, 8]

// Lines are printed in blocks of a power of ten, whose numbers begin alike: to make each line by itself would be too slow for short ones.
const blockOf = (length) => 10 ** Math.floor(Math.log10(500_000 / length))
const countOf = (length) => Math.round((RATE * seconds) / LENGTHS.length / length / blockOf(length)) * blockOf(length)

// Prints this many lines of a length, each with its number, at most 10 MB a second. On a busy machine it takes longer and prints the same.
const printer = (length, count) => `exec python3 -c 'import sys, time
block, digits, rest, out = ${blockOf(length)}, ${Math.log10(blockOf(length))}, b"x" * ${length - 8} + b"\\n", sys.stdout.buffer
lines = b"".join(b"#" * (7 - digits) + (b"%07d" % line)[7 - digits:] + rest for line in range(block))
begun = time.monotonic()
for at in range(0, ${count}, block):
    out.write(lines.replace(b"#" * (7 - digits), (b"%07d" % (at % 10000000))[:7 - digits]))
    out.flush()
    time.sleep(max(0, begun + (at + block) * ${length} / ${RATE} - time.monotonic()))'`

// The tasks of the page's main thread, by the browser's own record: how long each took, and how much of that it ran.
function tasksOf(trace) {
  const threads = new Set(trace.filter((event) => event.name === 'thread_name' && event.args.name === 'CrRendererMain').map((event) => `${event.pid} ${event.tid}`))
  const tasks = trace.filter((event) => event.ph === 'X' && event.name.endsWith('RunTask') && threads.has(`${event.pid} ${event.tid}`))
  return tasks.map((event) => ({ took: event.dur / 1000, ran: (event.tdur ?? event.dur) / 1000 }))
}

async function floods(world, page, length, { say }) {
  const name = `flood-${length}`
  const count = countOf(length)
  const job = world.run(name, printer(length, count))
  await world.browser.startTracing(page, { categories: ['toplevel', 'disabled-by-default-devtools.timeline'] })
  await world.go(page, name)
  // To its end, whatever the machine needs for that: the job prints a number of bytes, not for a time.
  let memory = 0
  while (['starting', 'running'].includes(world.json('show', job).status)) {
    await page.waitForTimeout(500)
    memory = Math.max(memory, await world.memory())
  }
  // The page has come to the end as well, and shows the last line.
  const last = String((count - 1) % 1e7).padStart(7, '0')
  await page.waitForFunction(([count, last]) => document.querySelector('.panel .foot').textContent.startsWith(`${count.toLocaleString()} lines`)
    && [...document.querySelectorAll('.line .text')].at(-1)?.textContent.startsWith(last), [count, last])
  const tasks = tasksOf(JSON.parse(await world.browser.stopTracing()).traceEvents)
  const most = (key) => Math.round(Math.max(0, ...tasks.map((task) => task[key])))
  const { heap, lines } = await page.evaluate(() => ({ heap: performance.memory.usedJSHeapSize / 1e6, lines: document.querySelectorAll('.line').length }))
  const { output, runtime_ms: took, status } = world.json('show', job)
  say(`lines of ${length}: ${Math.round(output.bytes / 1e6)} MB of output in ${(took / 1000).toFixed(1)} s, ${(output.bytes / took / 1000).toFixed(1)} MB/s: at most ${Math.round(memory)} MB, ${Math.round(heap)} of the page's heap; longest task ${most('took')} ms, of which it ran ${most('ran')}; ${lines} lines in the page`)
  assert.equal(status, 'completed')
  assert.equal(output.bytes, count * length, 'every byte was recorded')
  assert.equal(output.dropped_bytes, 0)
  assert.ok(tasks.length > 10, 'the browser has kept a record')
  assert.ok(memory < 300, `${memory} MB`)
  assert.ok(lines < 200, `${lines} lines in the page`)
  // What a task waits for a processor that others have is not its own.
  assert.ok(most('ran') <= 100, `a task ran for ${most('ran')} ms`)
}

export async function holdsMuch(world, { until, say, photograph, pictures }) {
  const page = await world.page()
  for (const length of LENGTHS) await floods(world, page, length, { say })
  await page.keyboard.press('Escape')
  // A thousand starts and ends are told while they happen; the list is asked for once at a time.
  const asked = new Set()
  let most = 0
  const isList = (request) => /\/v1\/jobs\?limit=2000$/.test(request.url())
  page.on('request', (request) => { if (isList(request)) most = Math.max(most, asked.add(request).size) })
  for (const over of ['requestfinished', 'requestfailed']) page.on(over, (request) => asked.delete(request))
  for (let number = 0; number < 1000; number += 1) world.run(`job-${number}`, 'true')
  await world.go(page)
  await until(page, () => document.querySelectorAll('li.row').length >= 1000)
  assert.equal(most, 1, 'questions for the list at once')
  const begun = performance.now()
  await page.fill('#search', 'job-957')
  await until(page, () => document.querySelectorAll('li.row').length === 1)
  say(`1,000 jobs: filtered in ${Math.round(performance.now() - begun)} ms`)
  await page.fill('#search', '')
  for (const width of pictures ? [360, 1280, 2560] : []) {
    await page.setViewportSize({ width, height: 900 })
    await photograph(page, `jobs-1000-${width}`)
  }
  await page.context().close()
}
