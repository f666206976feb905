// What the scripted model does, and what it must have been shown for it.

const RUNNING = /\[outlive\] (\S+) running/

const jobOf = text => {
  const found = RUNNING.exec(text)
  if (!found) throw new Error(`no running job in: ${text}`)
  return found[1]
}

// The first conversation: starts a job that ends, one to kill and one to leave behind; waits, reads, kills.
export const first = [
  { tool: 'run', args: () => ({ command: 'for i in 1 2 3; do echo "step $i of the build"; sleep 0.3; done; echo build-is-done', name: 'build', background: true }) },
  { tool: 'run', args: () => ({ command: 'n=0; while :; do n=$((n+1)); echo "tick $n"; sleep 0.2; done', name: 'ticker', background: true }) },
  { tool: 'wait', args: shown => ({ jobs: [jobOf(shown[0])], timeout_ms: 20000 }) },
  { tool: 'read_output', args: shown => ({ job: jobOf(shown[0]) }) },
  { tool: 'read_output', args: shown => ({ job: jobOf(shown[1]), from_line: 1, lines: 3 }) },
  { tool: 'kill', args: shown => ({ job: jobOf(shown[1]) }) },
  { tool: 'run', args: () => ({ command: 'echo stays-behind; exec sleep 600', name: 'stays', wait_ms: 500 }) },
]

// Checks what the model was shown in the first conversation, and returns the job that was left behind.
export function checkFirst(shown, expect) {
  const [build, ticker, waited, read, page, killed, left] = shown
  expect(shown.length === first.length, `all ${first.length} results came back, not ${shown.length}`)
  const [buildJob, tickerJob] = [jobOf(build), jobOf(ticker)]
  expect(/^build-/.test(buildJob) && /^ticker-/.test(tickerJob), `ids say what they are: ${buildJob}, ${tickerJob}`)
  expect(waited.includes(`${buildJob} completed, exit 0`), `wait tells the end: ${waited}`)
  // What run or wait has shown already, read_output does not show again.
  const printed = [build, waited, read].join('\n')
  for (const line of ['step 1 of the build', 'step 3 of the build', 'build-is-done']) {
    expect(printed.split(line).length === 2, `${line} once in ${printed}`)
  }
  expect(/tick 1\s+tick 2\s+tick 3/.test(page.replaceAll('\\n', '\n')) && !page.includes('tick 4'), `three lines and no more: ${page}`)
  expect(killed.includes(`${tickerJob} ended`), `kill tells what ended: ${killed}`)
  expect(left.includes('stays-behind'), `run tells what was printed: ${left}`)
  for (const text of shown) expect(Buffer.byteLength(text) < 2048, `short: ${Buffer.byteLength(text)} bytes`)
  return jobOf(left)
}

// The second conversation, of a client started anew in the same project: finds what was left behind and ends it.
export const second = [
  { tool: 'list_jobs', args: () => ({ status: 'live' }) },
  { tool: 'kill', args: shown => ({ job: /(stays-\w+)\s+running/.exec(shown[0])?.[1] ?? 'stays' }) },
]

export function checkSecond(shown, left, expect) {
  expect(shown.length === second.length, `both results came back, not ${shown.length}`)
  const [list, killed] = shown
  expect(list.includes(left), `${left} is listed: ${list}`)
  expect(killed.includes(`${left} ended`), `${left} was ended: ${killed}`)
}
