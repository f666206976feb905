// Runs the conformance suite against a server of a temporary home, and counts its checks.
//
// The suite cannot send a token, so it asks a proxy that adds one; what the suite sends otherwise, odd names and origins too, goes through
// as it is.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const SETS = ["2025-11-25", "2026-07-28"];
const program = process.env.OUTLIVE_TEST_PROGRAM;
const suite = join(process.env.OUTLIVE_TEST_PACKAGES, "@modelcontextprotocol/conformance/dist/index.js");

const home = mkdtempSync(join(tmpdir(), "outlive-conformance-"));
const env = { PATH: process.env.PATH, HOME: home, OUTLIVE_HOME: join(home, "store") };
const server = spawn(program, ["--json", "serve", "--tcp"], { env, stdio: ["ignore", "pipe", "inherit"] });
const line = await new Promise((resolve) => createInterface({ input: server.stdout }).once("line", resolve));
const port = Number(new URL(JSON.parse(line).url).port);
const token = execFileSync(program, ["token", "create", "suite", "--scope", "drive"], { env, encoding: "utf8" }).trim();

const proxy = http.createServer((asked, answer) => {
  const own = `:${proxy.address().port}`;
  const named = (value) => value?.replace(new RegExp(`^((http://)?(127\\.0\\.0\\.1|localhost|\\[::1\\]))${own}$`), `$1:${port}`);
  const headers = { ...asked.headers, authorization: `Bearer ${token}`, host: named(asked.headers.host) };
  if (headers.origin !== undefined) headers.origin = named(headers.origin);
  const forwarded = http.request({ host: "127.0.0.1", port, method: asked.method, path: asked.url, headers }, (reply) => {
    answer.writeHead(reply.statusCode, reply.headers);
    answer.flushHeaders();
    reply.pipe(answer);
  });
  forwarded.on("error", () => answer.destroy());
  answer.on("close", () => forwarded.destroy());
  asked.pipe(forwarded);
});
await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));

/** Runs one set, and returns how many checks had which result. */
async function run(set) {
  const results = join(home, set);
  const url = `http://127.0.0.1:${proxy.address().port}/mcp`;
  const child = spawn(process.execPath, [suite, "server", "--url", url, "--requirements", set, "-o", results], { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (said += bytes));
  const status = await new Promise((resolve) => child.on("close", resolve));
  const counts = {};
  const failed = [];
  for (const file of readdirSync(results, { recursive: true }).filter((name) => name.endsWith("checks.json"))) {
    for (const check of JSON.parse(readFileSync(join(results, file), "utf8"))) {
      if (check.status === "INFO") continue;
      counts[check.status] = (counts[check.status] ?? 0) + 1;
      if (check.status !== "SUCCESS") failed.push(`${check.status} ${file.split("/")[0]} ${check.id}: ${check.errorMessage ?? ""}`);
    }
  }
  console.log(`  ${set}: ${JSON.stringify(counts)}, exit ${status}`);
  for (const words of failed) console.log(`    ${words}`);
  if (process.argv.includes("--all")) console.log(said);
  return status === 0 && !counts.FAILURE && counts.SUCCESS > 0;
}

let isGood = true;
try {
  for (const set of SETS) isGood = (await run(set)) && isGood;
} finally {
  proxy.close();
  proxy.closeAllConnections();
  server.kill("SIGTERM");
  const status = await new Promise((resolve) => server.on("close", resolve));
  if (status !== 0) {
    console.log(`  the server ended with ${status}`);
    isGood = false;
  }
  rmSync(home, { recursive: true, force: true });
}
process.exit(isGood ? 0 : 1);
