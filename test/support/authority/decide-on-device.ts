// A setup file: the GPU decides for every scheduler.
import { vi } from 'vitest';
import '../gpu.js';

// A setup file (BLOCKSTEP_TEST_AUTHORITY=device): whatever scheduler a suite makes, the GPU decides, unless its options are those that only
// a host knows. Neither the suite nor an engine notices, since schedule() waits in place.
const OF_HOST = ['kvGroups', 'borrower', 'kvEvents'] as const;

vi.mock('../../../src/scheduler/scheduler.js', async (importOriginal) => {
  const original = await importOriginal<typeof import('../../../src/scheduler/scheduler.js')>();
  class DecidedScheduler extends original.Scheduler {
    constructor(options: ConstructorParameters<typeof original.Scheduler>[0]) {
      const isOfHost = OF_HOST.some((name) => options[name] != null);
      // Some of an engine's options are on the prototype of the object.
      super(isOfHost ? options : Object.create(options, { authority: { value: 'device' } }));
    }

    override get config(): InstanceType<typeof original.Scheduler>['config'] {
      const { placement, ...config } = super.config;
      return { ...config, placement: { ...placement, authority: 'host' } };
    }

    override get decided(): null {
      return null;
    }

    override schedule(): ReturnType<InstanceType<typeof original.Scheduler>['schedule']> {
      return super.decided?.scheduleInPlace() ?? super.schedule();
    }
  }
  return { ...original, Scheduler: DecidedScheduler };
});

vi.mock('../../../src/engine/inspect/health.js', async (importOriginal) => {
  const original = await importOriginal<typeof import('../../../src/engine/inspect/health.js')>();
  class UnnoticedHealth extends original.HealthWatch {
    override read(): ReturnType<InstanceType<typeof original.HealthWatch>['read']> {
      return { ...super.read(), authority: 'host' };
    }
  }
  return { ...original, HealthWatch: UnnoticedHealth };
});
