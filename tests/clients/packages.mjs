// Prints the real clients that are wanted and the packages that they come in.

import { CLIENTS } from './real.mjs'

const wanted = process.argv.slice(2).map(name => name.toLowerCase())
for (const client of CLIENTS) {
  const names = [client.name, `${client.name}, on another machine`, client.wake && `${client.name}, woken`, client.resume && `${client.name}, resumed`].filter(Boolean)
  if (wanted.length === 0 || wanted.some(part => names.some(name => name.includes(part)))) console.log(`${client.name} ${client.package}`)
}
