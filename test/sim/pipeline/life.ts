// A run: events, then the phase without faults, then the audit of the remains.
import { Pipeline } from '../../../src/pipeline/pipeline.js';
import { wordy } from '../../support/unpaged-text.js';
import type { Tally } from '../shared/run.js';
import { Client, type Wish } from './client.js';
import { MAX_MODEL_LEN, type PipelineSetup } from './setup.js';
import { Station } from './station.js';
import { textsOf } from './text.js';
import { HostileTransport } from './transport.js';
import { World } from './world.js';

/** Rounds without faults in which all that is unfinished has to end. */
const MOST_ROUNDS = 6000;
/** Answers that a request may need in its last stage: it keeps runs short. */
const MOST_ANSWERS = 24;

/** A client program: a pipeline whose stages are all elsewhere, and its requests. */
interface Party {
  pipeline: Pipeline;
  name: string;
  clients: Client[];
  /** Questions about its requests that were not answered. */
  numAsked: number;
}

/** One life of a pipeline: events with faults, then none and no new work, until nothing is left. */
export class PipelineLife {
  readonly world: World;
  step = 0;
  readonly #transport: HostileTransport;
  readonly #stations: Station[];
  readonly #parties: Party[] = [];
  #numRequests = 0;
  #numAborts = 0;

  constructor(setup: PipelineSetup) {
    this.world = new World(setup);
    this.#transport = new HostileTransport(this.world);
    this.#stations = setup.stages.map((stage) => new Station(this.world, this.#transport, stage));
    for (let i = 0; i < 1 + (setup.seed % 2); i++) this.#parties.push(this.#newParty());
  }

  get journal(): readonly string[] {
    return this.world.journal;
  }

  get tally(): Tally {
    return this.world.tally;
  }

  dispose(): void {
    for (const { stage } of this.#stations) stage.engine.dispose();
  }

  /** @throws Violation */
  async run(numEvents: number): Promise<void> {
    const rng = this.world.rng('events');
    while (this.step < numEvents) {
      this.step++;
      this.#act();
      await this.#round(1 + rng.below(this.world.setup.tick));
    }
    await this.#calm();
    await this.#rest();
    for (const { clients } of this.#parties)
      for (const client of clients) client.check(this.world.setup.mood !== 'hostile');
    for (const station of this.#stations) station.checkRest();
    for (const { pipeline } of this.#parties)
      if (pipeline.numUnfinished !== 0)
        this.world.broke('rest', `a client keeps ${pipeline.numUnfinished} requests`);
    for (const { numAsked } of this.#parties)
      if (numAsked !== 0) this.world.broke('explain', `${numAsked} questions have no answer`);
    if (this.world.setup.mood === 'quiet') this.#checkQuiet();
    this.world.check();
  }

  async #round(ms: number): Promise<void> {
    const { world } = this;
    world.now += ms;
    this.#transport.deliver();
    for (const station of this.#stations) station.turn();
    for (const { pipeline } of this.#parties) await pipeline.step();
    for (const { clients } of this.#parties) for (const client of clients) this.#look(client);
    world.check();
  }

  /** Something that clients or fate do. */
  #act(): void {
    const { world } = this;
    const { setup } = world;
    const rng = world.rng('acts');
    const party = rng.pick(this.#parties);
    const live = party.clients.filter((client) => !client.stream.ended);
    if (live.length < setup.crowd && rng.chance(0.35)) this.#submit(party);
    if (live.length > 0 && rng.chance(setup.aborts)) this.#abort(party, rng.pick(live));
    for (const client of live) if (client.wish.isSession && rng.chance(0.08)) this.#feed(client);
    if (party.clients.length > 0 && rng.chance(0.2)) rng.pick(party.clients).open();
    if (live.length > 0 && rng.chance(0.03)) this.#explain(party, rng.pick(live).wish.id);
    const fate = world.rng('fate');
    if (world.strikes('restart', fate)) fate.pick(this.#stations).restart();
    if (world.strikes('silence', fate)) fate.pick(this.#stations).silence(fate.between(50, 2 * setup.deadMs));
    if (world.strikes('clientDies', fate)) this.#die(party);
  }

  #submit(party: Party): void {
    const { world } = this;
    const { setup } = world;
    const rng = world.rng('requests');
    const id = `r${rng.below(setup.numIds)}`;
    if (party.clients.some((client) => client.wish.id === id && !client.stream.ended)) return;
    const isSession = rng.chance(setup.sessions);
    const numInputs = isSession ? rng.between(1, 3) : 1;
    const inputs = Array.from({ length: numInputs }, (_, i) =>
      i === 0 && isSession && rng.chance(0.3) ? new Int32Array(0) : wordy(1 + rng.below(10), rng.below(5)),
    );
    const maxTokens = setup.stages.map((stage) => rng.between(1, stage.maxTokens));
    let texts = textsOf(setup.stages, inputs, maxTokens);
    while (texts.longest > MAX_MODEL_LEN - 4 || (texts.answers.at(-1)?.length ?? 0) > MOST_ANSWERS) {
      const long = maxTokens.indexOf(Math.max(...maxTokens));
      if (maxTokens[long] === 1) return;
      maxTokens[long]--;
      texts = textsOf(setup.stages, inputs, maxTokens);
    }
    const last = setup.stages.length - 1;
    const wants = rng.chance(0.4) ? setup.stages.map((_, i) => i).filter(() => rng.chance(0.6)) : [last];
    const wish: Wish = {
      ...{ name: `${id}#${++this.#numRequests}`, id, inputs, isSession, answers: texts.answers, wants },
      reads: rng.pick(['at once', 'at once', 'late', 'never'] as const),
      leavesAfter: rng.chance(setup.aborts) ? 1 + rng.below(4) : Number.POSITIVE_INFINITY,
    };
    const stages = Object.fromEntries(
      setup.stages.map(({ name, kind }, i) => [
        name,
        kind === 'generation' ? {} : { maxTokens: maxTokens[i] },
      ]),
    );
    world.note(`submits ${wish.name}: ${texts.answers.map((each) => each.flat().length).join(', ')} tokens`);
    this.#transport.audit.next = { name: wish.name, texts: texts.answers.map((each) => each.flat()) };
    const outputs = wants.map((i) => setup.stages[i].name);
    const input = { id, prompt: inputs[0], resumable: isSession, stages };
    const stream = party.pipeline.submit(input, { outputs });
    this.#transport.audit.next = null;
    const client = new Client(world, wish, stream);
    party.clients.push(client);
    if (rng.chance(setup.aborts)) this.#abort(party, client);
  }

  #abort(party: Party, client: Client): void {
    const rng = this.world.rng('aborts');
    const reason = rng.chance(0.5) ? new Error('the client has had enough') : undefined;
    this.#numAborts++;
    this.world.note(`aborts ${client.wish.name}`);
    const { stream } = client;
    client.abort(reason, () =>
      rng.chance(0.5) ? stream.abort(reason) : party.pipeline.abort(client.wish.id, reason),
    );
    // A client may abort twice, and its id may be used again at once.
    if (rng.chance(0.2)) stream.abort();
    if (rng.chance(0.5)) this.#submit(party);
  }

  #feed(client: Client): void {
    const { inputs } = client.wish;
    if (client.stream.ended) return;
    const next = inputs[client.given++];
    if (next !== undefined) client.stream.addChunk({ prompt: next });
    else if (client.given === inputs.length + 1) client.stream.endInput();
    else if (client.stream.addChunk({ prompt: [1] }) !== 'skipped')
      this.world.broke('session', `${client.wish.name} takes a chunk behind the end of its input`);
  }

  #explain(party: Party, id: string): void {
    party.numAsked++;
    party.pipeline.explain(id).then(
      (text) => {
        party.numAsked--;
        if (!text.startsWith(`request "${id}"`)) this.world.broke('explain', text);
      },
      (error) => this.world.broke('explain', String(error)),
    );
  }

  /**
   * A client dies silently; another one begins. The stages must forget the requests of the dead
   * client.
   */
  #die(party: Party): void {
    this.world.note('a client dies');
    this.#transport.cut(party.name);
    for (const client of party.clients) client.isDead = true;
    this.#parties[this.#parties.indexOf(party)] = this.#newParty();
  }

  #newParty(): Party {
    const { stages, pingMs, deadMs } = this.world.setup;
    const pipeline = new Pipeline({
      stages: stages.map(({ name }) => ({ name, remote: true as const })),
      transport: this.#transport,
      ...{ pingMs, deadMs, now: () => this.world.now },
    });
    return { pipeline, name: this.#transport.newest, clients: [], numAsked: 0 };
  }

  /** Once a client has ended, the reason of its end has to be true. */
  #look(client: Client): void {
    if (!client.hasEnded || client.isDead) return;
    if (!this.#transport.audit.endedAt.has(client.wish.name))
      this.#transport.audit.endedAt.set(client.wish.name, this.world.now);
    const failure = client.stallTold();
    if (failure === null) return;
    const { name, waitedMs, stallMs } = failure;
    const station = this.#stations.find(({ setup }) => setup.name === name) as Station;
    const { world } = this;
    if (waitedMs + 1 < stallMs || stallMs !== station.setup.stallMs)
      world.broke('stall', `${client.wish.name} was given up after ${waitedMs} ms, with stallMs ${stallMs}`);
    // The wait for a chunk begins when the chunk before was computed, that for its taking with the last news of it.
    const { audit } = this.#transport;
    const ask = failure.isForChunk ? audit.computedAt : audit.heardAt;
    const since = world.now - ask.call(audit, client.wish.name, station.party);
    if (since < stallMs)
      world.broke(
        'stall',
        `${client.wish.name} was given up in ${name}, where a chunk was computed ${since} ms ago`,
      );
  }

  /** No faults and no new work: everything ends. */
  async #calm(): Promise<void> {
    const { world } = this;
    world.isCalm = true;
    world.calmAt = world.now;
    world.note('calm');
    const waiting = () => this.#parties.flatMap(({ clients }) => clients).filter(({ isOver }) => !isOver);
    for (let round = 0; waiting().length > 0; round++) {
      if (round === MOST_ROUNDS) {
        const [client] = waiting();
        const party = this.#parties.find(({ clients }) => clients.includes(client)) as Party;
        this.#explain(party, client.wish.id);
        world.broke('hang', `${waiting().length} requests do not end; the first is ${client.wish.name}`);
      }
      for (const client of waiting()) {
        client.open();
        if (client.wish.isSession) this.#feed(client);
      }
      await this.#round(1 + (round % 7));
    }
  }

  /** Lets stages find out that requests have ended, and clients died. */
  async #rest(): Promise<void> {
    const { pingMs, deadMs } = this.world.setup;
    const end = this.world.now + 3 * pingMs + 3 * deadMs + 1000;
    while (this.world.now < end) await this.#round(10);
  }

  /** In a world without faults there are no anomalies, except for messages that aborts overtake. */
  #checkQuiet(): void {
    const { world } = this;
    const isAborted =
      this.#numAborts > 0 || this.#parties.some(({ clients }) => clients.some((c) => c.abortedWith));
    for (const { pipeline } of this.#parties) {
      const { anomalies, lateOutputs } = pipeline.stats();
      const { 'chunk-finished': _a, 'abort-unknown': _b, 'chunk-after-end': _c, ...others } = anomalies;
      if (Object.keys(others).length > 0) world.broke('quiet', `a client counted ${JSON.stringify(others)}`);
      if (lateOutputs > 0 && !isAborted) world.broke('quiet', `${lateOutputs} outputs came late`);
    }
    for (const { stage, party } of this.#stations) {
      const { anomalies, engine } = stage.stats();
      const { 'chunk-unknown': unknown = 0, ...others } = anomalies;
      const all = {
        ...others,
        ...(isAborted ? {} : unknown > 0 ? { unknown } : {}),
        ...engine.scheduler.anomalies,
      };
      if (Object.keys(all).length > 0) world.broke('quiet', `${party} counted ${JSON.stringify(all)}`);
    }
  }
}
