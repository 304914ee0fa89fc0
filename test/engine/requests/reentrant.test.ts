// User code that calls back into the engine from inside a step is refused, and named.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, expect, it } from 'vitest';
import type { BlockstepError } from '../../../src/index.js';
import { ScriptedConnector } from '../../support/connector/scripted-connector.js';
import { makeScheduler, prompt } from '../../support/driver.js';
import { EngineBench } from '../../support/engine-bench.js';

/** Every function of others that a step calls; each calls back once, in the way that it is given. */
const CALLEES: Record<string, (callBack: () => void) => EngineBench> = {
  'executor.execute': (callBack) => {
    const bench = new EngineBench();
    bench.executor.onExecute = callBack;
    return bench;
  },
  'grammar.ready': (callBack) => withGrammar('ready', callBack),
  'grammar.acceptTokens': (callBack) => withGrammar('acceptTokens', callBack),
  'connector.getNumNewMatchedTokens': (callBack) => withConnector('match', callBack),
  'connector.buildMetadata': (callBack) => withConnector('metadata', callBack),
  'workers[0].getFinished': (callBack) => {
    const worker = {
      getFinished: () => {
        callBack();
        return null;
      },
    };
    return new EngineBench({ connector: new ScriptedConnector(), workers: [worker] });
  },
  'log.write': (callBack) => {
    let isOn = false;
    const bench = new EngineBench({ log: { write: () => isOn && callBack() } });
    isOn = true;
    return bench;
  },
  now: (callBack) => {
    const bench = new EngineBench();
    bench.onClock = callBack;
    return bench;
  },
};

function withGrammar(method: 'ready' | 'acceptTokens', callBack: () => void): EngineBench {
  const bench = new EngineBench();
  const asked = (called: string) => {
    if (called === method) callBack();
    return true;
  };
  bench.submit({
    id: 'g',
    maxTokens: 1,
    grammar: {
      ready: () => asked('ready'),
      acceptTokens: () => asked('acceptTokens'),
      validateTokens: ({ length }) => length,
    },
  });
  return bench;
}

function withConnector(method: string, callBack: () => void): EngineBench {
  const connector = new ScriptedConnector();
  connector.during = (called) => (called === method ? callBack() : undefined);
  return new EngineBench({ connector });
}

/** The message of the error that a call throws. */
function messageOf(call: () => void): string {
  try {
    call();
  } catch (error) {
    return `${(error as BlockstepError).code}: ${(error as Error).message}`;
  }
  return 'nothing';
}

// Pinned by: `enterCallee` and `describeCallee` (callee.ts) and its callers.
describe('whoever calls back is told by its name', () => {
  it.each(Object.keys(CALLEES))('%s', async (name) => {
    const told = new Set<string>();
    let isStepping = false;
    const bench: EngineBench = CALLEES[name](() => {
      if (!isStepping) return;
      told.add(messageOf(() => bench.engine.step()));
      told.add(messageOf(() => bench.engine.dispose()));
    });
    const stream = bench.submit({ id: 'a', maxTokens: 1 });
    isStepping = true;
    bench.engine.step();
    bench.engine.step();
    isStepping = false;
    const who = `the engine was called from inside ${name}(), which it is just calling`;
    expect([...told]).toEqual([`ERR_BLOCKSTEP_REENTRANT: ${who}`]);
    expect((await stream.result()).tokens).toHaveLength(1);
  });

  it('by the scheduler alone too', () => {
    using scheduler = makeScheduler();
    const told: string[] = [];
    const ready = () => {
      told.push(messageOf(() => scheduler.schedule()));
      return true;
    };
    const grammar = { ready, acceptTokens: () => true, validateTokens: () => 0 };
    scheduler.add({ id: 'a', prompt: prompt(4), maxTokens: 1, grammar });
    scheduler.schedule();
    const who = 'the scheduler was called from inside grammar.ready(), which it is just calling';
    expect(told).toEqual([`ERR_BLOCKSTEP_REENTRANT: ${who}`]);
  });

  it('what has no name is a callback', () => {
    const bench = new EngineBench();
    const told: string[] = [];
    const listener = () => void told.push(messageOf(() => bench.engine.step()));
    subscribe('blockstep:step', listener);
    try {
      bench.submit({ id: 'a', maxTokens: 1 });
      bench.engine.step();
    } finally {
      unsubscribe('blockstep:step', listener);
    }
    expect(told).toHaveLength(1);
    expect(told[0]).toContain('inside a callback (a diagnostics subscriber, or a getter of an argument)');
  });

  it('of two engines the inner one names its own, also behind one that threw', () => {
    const [outer, inner] = [new EngineBench(), new EngineBench()];
    const told: string[] = [];
    inner.onClock = () => {
      throw new Error('mine');
    };
    outer.executor.onExecute = () => {
      expect(() => inner.engine.pause('new')).toThrow('mine');
      told.push(messageOf(() => outer.engine.step()));
    };
    outer.submit({ id: 'a', maxTokens: 1 });
    outer.engine.step();
    expect(told[0]).toContain('inside executor.execute()');
  });
});
