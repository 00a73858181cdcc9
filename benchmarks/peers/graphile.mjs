import { Logger, makeWorkerUtils, run as runWorker } from "graphile-worker";
import { payload, plan, run } from "./contest.mjs";

const logger = new Logger(() => () => {});
const connectionString = plan.servers.postgres;

await run({
  work: async ({ tick, flush }) => {
    const worker = {
      connectionString,
      logger,
      concurrentJobs: 24,
      pollInterval: 1000,
      maxPoolSize: 10,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
    };
    const taskList = { noop: async (job) => tick(job.ts) };
    const runner = await runWorker({ preset: { worker }, logger, noHandleSignals: true, taskList });
    process.on("SIGTERM", async () => {
      flush();
      await runner.stop().catch(() => {});
      process.exit(0);
    });
    await runner.promise;
  },
  connect: async () => {
    const utils = await makeWorkerUtils({ connectionString, logger, maxPoolSize: 16 });
    await utils.migrate();
    const one = () => ({ identifier: "noop", payload: { payload, ts: 0 } });
    return {
      add: (ts) => utils.addJob("noop", { payload, ts }),
      addMany: (jobs) => utils.addJobs(Array.from({ length: jobs }, one)),
      close: () => utils.release(),
    };
  },
});
