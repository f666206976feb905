// Prints the real clients that are wanted and the packages that they come in.

import { CLIENTS } from './real.mjs'

const wanted = process.argv.slice(2).map(name => name.toLowerCase())
for (const client of CLIENTS) {
  if (wanted.length === 0 || wanted.some(name => client.name.includes(name))) console.log(`${client.name} ${client.package}`)
}
