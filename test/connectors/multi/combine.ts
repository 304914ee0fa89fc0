import type { WorkerConnector } from '../../../src/connector.js';
import { MultiConnector, MultiWorker } from '../../../src/connectors/multi/index.js';
import type { ConnectorUnderTest, ConnectorWorld, MakeConnector } from '../../../src/testing/index.js';

/** Makes several connectors work as one, as the suite makes it. */
export function combine(parts: Readonly<Record<string, MakeConnector>>): MakeConnector {
  return async (world: ConnectorWorld): Promise<ConnectorUnderTest> => {
    const made: ConnectorUnderTest[] = [];
    for (const make of Object.values(parts)) made.push(await make(world));
    const children = Object.keys(parts).map((name, i) => ({ name, connector: made[i].connector }));
    const multi = new MultiConnector({ children, numRanks: world.numRanks });
    const workers = world.memories.map(
      (_, rank) => new MultiWorker({ children: made.map((each) => each.workers[rank]) }) as WorkerConnector,
    );
    const all = (call: (each: ConnectorUnderTest) => void): void => {
      for (const each of made) call(each);
    };
    // The combination cannot take a request that one of its connectors cannot take. For instance, a
    // lease connector for new requests and for hand-overs can wait for itself.
    const takes = made.find((each) => each.takes !== undefined)?.takes;
    const canFence = made.every(({ fence }) => fence !== undefined);
    const canKill = made.every(({ kill }) => kill !== undefined);
    return {
      connector: multi,
      workers,
      ...(takes !== undefined && { takes }),
      losesKv: made.some(({ losesKv }) => losesKv === true),
      tick: () => all((each) => each.tick?.()),
      calm: () => all((each) => each.calm?.()),
      transferParams: () => {
        const given = made.map((each) => each.transferParams?.()).filter((params) => params !== undefined);
        return given.length === 0 ? undefined : Object.assign({}, ...given);
      },
      ...(canFence && { fence: () => all((each) => each.fence?.()) }),
      ...(canKill && { kill: () => all((each) => each.kill?.()) }),
      leftovers: () => made.flatMap((each) => [...(each.leftovers?.() ?? [])]),
      dispose: async () => {
        for (const each of made) await each.dispose?.();
      },
    };
  };
}
