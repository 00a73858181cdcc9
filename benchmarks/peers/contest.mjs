// What the Node peers share. `node PEER.mjs work`, or `produce WAY JOBS`, or `pace RATE SECONDS`:
// the last two print {"seconds": …} on one line.
import fs from "node:fs";

export const plan = JSON.parse(process.env.BENCHMARK_PLAN);
export const payload = "x".repeat(1000);
const CHUNK = 1000;
const FLUSH_MS = 20;

export const nowSeconds = () => (performance.timeOrigin + performance.now()) / 1000;

// The same file as benchmarks/contest/tally.py: jobs, first start, last start.
export function tally() {
  const counter = Buffer.alloc(24);
  const path = `${plan.counts}/${process.pid}`;
  let jobs = 0n, first = 0, last = 0, dirty = false;
  const flush = () => {
    if (!dirty) return;
    dirty = false;
    counter.writeBigInt64LE(jobs, 0);
    counter.writeDoubleLE(first, 8);
    counter.writeDoubleLE(last, 16);
    fs.writeFileSync(`${path}.count`, counter);
  };
  setInterval(flush, FLUSH_MS);
  const tick = (enqueuedAt) => {
    last = nowSeconds();
    first ||= last;
    jobs += 1n;
    dirty = true;
    if (!enqueuedAt) return;
    const stamp = Buffer.alloc(8);
    stamp.writeDoubleLE(last - enqueuedAt, 0);
    fs.appendFileSync(`${path}.latency`, stamp);
  };
  return { tick, flush };
}

async function produce(add, addMany, way, jobs) {
  if (way === "bulk") {
    for (let done = 0; done < jobs; done += CHUNK) await addMany(CHUNK);
    return;
  }
  let started = 0;
  const caller = async () => { while (started++ < jobs) await add(0); };
  const callers = way === "single" ? 1 : plan.callers;
  await Promise.all(Array.from({ length: callers }, caller));
}

async function pace(add, rate, seconds) {
  const began = nowSeconds();
  for (let job = 0; job < rate * seconds; job++) {
    const early = began + job / rate - nowSeconds();
    if (early > 0) await new Promise((wake) => setTimeout(wake, early * 1000));
    await add(nowSeconds());
  }
}

export async function run({ work, connect }) {
  const [verb, first, second] = process.argv.slice(2);
  if (verb === "work") return work(tally());
  const { add, addMany, close } = await connect();
  const began = performance.now();
  if (verb === "produce") await produce(add, addMany, first, Number(second));
  else await pace(add, Number(first), Number(second));
  console.log(JSON.stringify({ seconds: (performance.now() - began) / 1000 }));
  await close();
  process.exit(0);
}
