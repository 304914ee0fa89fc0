import { grouped } from '../../../report/markup/figures.js';
import type { BlockFacts } from '../answers.js';
import { BlockCanvas, STATE_NAMES } from './block-canvas.js';
import { element, say, wordsOf } from './elements.js';
import type { Server } from './server.js';

/** How long the pointer must rest on a block before the server is asked for its holders. */
const REST_MS = 80;
const WORDS: Readonly<Record<string, string>> = {
  free: 'free',
  cached: 'free, and holds a cached prefix',
  used: 'in use',
  transfer: 'under transfer',
  quarantined: 'quarantined',
  reserved: 'reserved: a sink holds it for good',
};

/** The block map, with a description of the block at the pointer or the cursor. */
export class MapView {
  readonly #server: Server;
  readonly #canvas = new BlockCanvas();
  readonly #element = element('map', HTMLCanvasElement);
  readonly #box = element('map-box', HTMLElement);
  readonly #cursor = element('map-cursor', HTMLElement);
  #version = '';
  #block: number | null = null;
  #holders: readonly string[] = [];
  /** The description of the block that follows its state. */
  #more = '';
  #timer = 0;
  /** The KV cache group whose blocks are highlighted. */
  #group: number | null = null;
  /** By KV cache group. */
  groupNames: readonly string[] = [];
  /** Called with the id of a request that the user wants to see; null for none. */
  onChosen: (id: string | null) => void = () => {};
  /** Whether the server reveals the holders of a block. */
  namesHolders = false;

  constructor(server: Server) {
    this.#server = server;
    this.#element.addEventListener('pointermove', ({ offsetX, offsetY }) =>
      this.#point(this.#canvas.blockAt(offsetX, offsetY)),
    );
    this.#element.addEventListener('click', ({ offsetX, offsetY }) => {
      // A finger, unlike a pointer, has not moved over the map before.
      const block = this.#canvas.blockAt(offsetX, offsetY);
      this.#point(block);
      if (block !== null) void this.#choose();
    });
    this.#element.addEventListener('keydown', (event) => this.#key(event));
    this.#element.addEventListener('focus', () => {
      if (this.#element.matches(':focus-visible')) this.#point(this.#block ?? 0);
    });
    new ResizeObserver(() => this.#resize()).observe(this.#box);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#canvas.draw());
  }

  /** Requests the states of the blocks, and draws them if they have changed. */
  async refresh(): Promise<void> {
    const headers = { 'if-none-match': this.#version };
    const response = await this.#server.ask('blocks', { headers });
    if (response.status === 304) return;
    const states = new Uint8Array(await response.arrayBuffer());
    this.#version = response.headers.get('etag') ?? '';
    this.#canvas.show(states);
    if (this.#group !== null) this.#canvas.pick(this.#canvas.blocksOf(this.#group));
    const counts = this.#canvas.counts();
    STATE_NAMES.forEach((name, i) => {
      say(`count-${name}`, grouped(counts[i]));
    });
    if (this.#block === null) return;
    this.#describe(this.#more);
    await this.#askHolders(this.#block);
  }

  /** Highlights the blocks of a KV cache group; null shows all blocks alike. */
  pickGroup(group: number | null): void {
    this.#group = group;
    this.#canvas.pick(group === null ? null : this.#canvas.blocksOf(group));
  }

  /** Highlights the blocks of a request; null shows all blocks alike. */
  pick(blocks: ReadonlySet<number> | null): void {
    this.#group = null;
    this.#canvas.pick(blocks);
  }

  #resize(): void {
    this.#canvas.resize();
    if (this.#block !== null) this.#place(this.#block);
  }

  #point(block: number | null): void {
    if (block === null || block === this.#block || block >= this.#canvas.numBlocks) return;
    this.#block = block;
    this.#holders = [];
    this.#place(block);
    this.#describe('');
    window.clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => void this.#askHolders(block), REST_MS);
  }

  #place(block: number): void {
    const { x, y, size } = this.#canvas.placeOf(block);
    const { offsetLeft, offsetTop } = this.#element;
    const { style } = this.#cursor;
    this.#cursor.hidden = false;
    style.left = `${offsetLeft + x - 2}px`;
    style.top = `${offsetTop + y - 2}px`;
    style.width = style.height = `${size + 4}px`;
  }

  /** Describes the block at the cursor. */
  #describe(more: string): void {
    if (this.#block === null) return;
    this.#more = more;
    const state = this.#canvas.stateOf(this.#block);
    const words = this.#block === 0 ? 'reserved: the null block' : (WORDS[state] ?? state);
    const group = this.#canvas.groupOf(this.#block);
    const whose = group === null ? '' : `, group ${group} (${this.groupNames[group] ?? 'unknown'})`;
    say('map-readout', `Block ${grouped(this.#block)}: ${words}${whose}${more}`);
  }

  async #askHolders(block: number): Promise<void> {
    if (!this.namesHolders) return;
    try {
      const { holders, numHolders } = await this.#server.get<BlockFacts>(`blocks/${block}`);
      if (block !== this.#block) return;
      this.#holders = holders;
      const rest = numHolders - holders.length;
      const names = `${holders.join(', ')}${rest > 0 ? ` and ${grouped(rest)} more` : ''}`;
      this.#describe(numHolders === 0 ? '' : `; held by ${names}`);
    } catch (error) {
      if (block === this.#block) this.#describe(`; who holds it cannot be said: ${wordsOf(error)}`);
    }
  }

  async #choose(): Promise<void> {
    const block = this.#block;
    if (block === null) return;
    window.clearTimeout(this.#timer);
    await this.#askHolders(block);
    if (block === this.#block && this.#holders.length > 0) this.onChosen(this.#holders[0]);
  }

  #key(event: KeyboardEvent): void {
    const { columns, numBlocks } = this.#canvas;
    const steps: Readonly<Record<string, number>> = {
      ArrowLeft: -1,
      ArrowRight: 1,
      ArrowUp: -columns,
      ArrowDown: columns,
      PageUp: -10 * columns,
      PageDown: 10 * columns,
      Home: -numBlocks,
      End: numBlocks,
    };
    if (event.key === 'Enter') void this.#choose();
    else if (event.key === 'Escape') this.onChosen(null);
    else if (event.key in steps && numBlocks > 0) {
      const to = Math.min(numBlocks - 1, Math.max(0, (this.#block ?? 0) + steps[event.key]));
      this.#point(to);
      this.#cursor.scrollIntoView({ block: 'nearest' });
    } else return;
    event.preventDefault();
  }
}
