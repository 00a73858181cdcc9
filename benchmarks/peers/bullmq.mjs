import { Queue, Worker } from "bullmq";
import { payload, plan, run } from "./contest.mjs";

const CONCURRENCY = 100;
const { hostname: host, port } = new URL(plan.servers.redis);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const options = { removeOnComplete: true, removeOnFail: 100 };

await run({
  work: async ({ tick, flush }) => {
    new Worker("q", async (job) => tick(job.data.ts), { connection, concurrency: CONCURRENCY });
    process.on("SIGTERM", () => { flush(); process.exit(0); });
  },
  connect: async () => {
    const queue = new Queue("q", { connection });
    await queue.waitUntilReady();
    const one = (ts) => ({ name: "noop", data: { payload, ts }, opts: options });
    return {
      add: (ts) => queue.add("noop", { payload, ts }, options),
      addMany: (jobs) => queue.addBulk(Array.from({ length: jobs }, () => one(0))),
      close: () => queue.close(),
    };
  },
});
