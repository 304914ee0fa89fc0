import { NUM_BLOCK_STATES } from '../../../scheduler/inspect/block-state.js';
import { element } from './elements.js';

/** Names of the states in the order of their numbers, as in the style sheet and the legend. */
export const STATE_NAMES = ['free', 'cached', 'used', 'transfer', 'quarantined', 'reserved'] as const;

/**
 * A byte of the map: the state in the low bits, and above them the KV cache group, counted from 1.
 */
const STATE_BITS = 15;
const GROUP_SHIFT = 4;
const LARGEST_CELL = 40;
/** The maximum height of the map, as in the style sheet, without the padding of its box. */
const MOST_HEIGHT = 376;
const SMALLEST_CELL = 2;
/** The cell size from which there are gaps between cells. */
const SPACED_CELL = 5;
/** Browsers draw nothing on a larger canvas. */
const MOST_ROWS = 16_000;
/** The opacity of a block while other blocks are highlighted. */
const DIMMED = 0.22;

/** The layout of the cells, in device pixels. */
interface Grid {
  readonly columns: number;
  readonly rows: number;
  /** The side of a cell. Small cells may have fractional sizes, so that they fill the width. */
  readonly cell: number;
  /** Device pixels per CSS pixel. */
  readonly ratio: number;
}

/**
 * The block map on a canvas: one cell for each block, drawn in one operation regardless of their
 * number.
 */
export class BlockCanvas {
  readonly #canvas = element('map', HTMLCanvasElement);
  readonly #box = element('map-box', HTMLElement);
  /** One pixel for each block, which is then scaled up. */
  readonly #small = document.createElement('canvas');
  #states = new Uint8Array(0);
  #groups = new Uint8Array(0);
  #grid: Grid = { columns: 1, rows: 0, cell: 1, ratio: 1 };
  #shown: ReadonlySet<number> | null = null;

  get columns(): number {
    return this.#grid.columns;
  }

  get numBlocks(): number {
    return this.#states.length;
  }

  /**
   * The KV cache group of a block; null if there is only one group, or the block belongs to none.
   */
  groupOf(block: number): number | null {
    return this.#groups[block] > 0 ? this.#groups[block] - 1 : null;
  }

  /** The blocks of a KV cache group. */
  blocksOf(group: number): Set<number> {
    const blocks = new Set<number>();
    for (let block = 0; block < this.#groups.length; block++)
      if (this.#groups[block] === group + 1) blocks.add(block);
    return blocks;
  }

  /** The name of the state of a block. */
  stateOf(block: number): string {
    return STATE_NAMES[this.#states[block]] ?? 'unknown';
  }

  /** Draws these states. @param bytes as the server sends them */
  show(bytes: Uint8Array<ArrayBuffer>): void {
    const isNew = bytes.length !== this.#states.length;
    this.#states = bytes.map((byte) => byte & STATE_BITS);
    this.#groups = bytes.map((byte) => byte >> GROUP_SHIFT);
    if (isNew) this.#layOut();
    this.draw();
  }

  /** Highlights these blocks; null shows all blocks alike. */
  pick(blocks: ReadonlySet<number> | null): void {
    if (isSame(this.#shown, blocks)) return;
    this.#shown = blocks;
    this.draw();
  }

  /** Lays out the cells again after the width has changed. */
  resize(): void {
    this.#layOut();
    this.draw();
  }

  /** The block at a point of the canvas, in CSS pixels; null if there is none. */
  blockAt(x: number, y: number): number | null {
    const { columns, cell, ratio } = this.#grid;
    const column = Math.floor((x * ratio) / cell);
    const block = Math.floor((y * ratio) / cell) * columns + column;
    return column < 0 || column >= columns || block < 0 || block >= this.#states.length ? null : block;
  }

  /** The position of a block's cell on the canvas, in CSS pixels. */
  placeOf(block: number): { x: number; y: number; size: number } {
    const { columns, cell, ratio } = this.#grid;
    const size = cell / ratio;
    return { x: (block % columns) * size, y: Math.floor(block / columns) * size, size };
  }

  /** The number of blocks in each state, by the state's number. */
  counts(): number[] {
    const counts = new Array<number>(NUM_BLOCK_STATES).fill(0);
    for (let block = 0; block < this.#states.length; block++) counts[this.#states[block]]++;
    return counts;
  }

  #layOut(): void {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth } = this.#box;
    // The box has a padding of four pixels.
    const width = Math.max(1, Math.floor((clientWidth - 8) * ratio));
    const height = Math.floor(MOST_HEIGHT * ratio);
    const count = this.#states.length;
    let cell = Math.round(LARGEST_CELL * ratio);
    const fits = (): boolean => Math.ceil(count / Math.floor(width / cell)) * cell <= height;
    while (cell > SMALLEST_CELL * ratio && !fits()) cell--;
    let columns = Math.max(1, Math.floor(width / cell));
    if (Math.ceil(count / columns) * cell > MOST_ROWS) {
      cell = 1;
      columns = width;
    }
    const whole = width / columns;
    // Cells without gaps between them would differ in width.
    if (cell >= SPACED_CELL * ratio && count > columns && Math.ceil(count / columns) * whole <= height)
      cell = whole;
    const rows = Math.min(MOST_ROWS, Math.ceil(count / columns));
    this.#grid = { columns, rows, cell, ratio };
    this.#canvas.width = Math.round(columns * cell);
    this.#canvas.height = Math.round(rows * cell);
    this.#canvas.style.width = `${this.#canvas.width / ratio}px`;
    this.#canvas.style.height = `${this.#canvas.height / ratio}px`;
    this.#canvas.dataset['columns'] = `${columns}`;
    this.#small.width = columns;
    this.#small.height = Math.max(1, rows);
  }

  /** Draws all cells, in the colours of the current scheme. */
  draw(): void {
    const { columns, rows, cell } = this.#grid;
    const { width, height } = this.#canvas;
    const context = this.#canvas.getContext('2d');
    const small = this.#small.getContext('2d');
    if (context === null || small === null || rows === 0) return;
    const image = small.createImageData(columns, rows);
    const pixels = new Uint32Array(image.data.buffer);
    const panel = rgbOf(getComputedStyle(this.#box.parentElement ?? this.#box).backgroundColor);
    const colors = STATE_NAMES.map((name) => {
      const swatch = document.querySelector(`.swatch.${name}`);
      return rgbOf(swatch === null ? '' : getComputedStyle(swatch).backgroundColor);
    });
    const strong = colors.map(packed);
    const dimmed = colors.map((color) =>
      packed(color.map((part, i) => DIMMED * part + (1 - DIMMED) * panel[i])),
    );
    const count = Math.min(this.#states.length, pixels.length);
    const shown = this.#shown;
    const usual = shown === null ? strong : dimmed;
    for (let block = 0; block < count; block++) pixels[block] = usual[this.#states[block]];
    for (const block of shown ?? []) if (block < count) pixels[block] = strong[this.#states[block]];
    small.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.clearRect(0, 0, width, height);
    context.drawImage(this.#small, 0, 0, width, height);
    if (cell / this.#grid.ratio < SPACED_CELL) return;
    context.fillStyle = `rgb(${panel.join(' ')})`;
    for (let column = 1; column <= columns; column++)
      context.fillRect(Math.round(column * cell) - 1, 0, 1, height);
    for (let row = 1; row <= rows; row++) context.fillRect(0, Math.round(row * cell) - 1, width, 1);
  }
}

function isSame(some: ReadonlySet<number> | null, others: ReadonlySet<number> | null): boolean {
  if (some === null || others === null) return some === others;
  if (some.size !== others.size) return false;
  for (const block of some) if (!others.has(block)) return false;
  return true;
}

function rgbOf(color: string): number[] {
  const [red = 0, green = 0, blue = 0] = (color.match(/[\d.]+/g) ?? []).map(Number);
  return [red, green, blue];
}

/** A colour in a canvas's byte order. All machines that browsers run on are little endian. */
function packed([red, green, blue]: number[]): number {
  return ((255 << 24) | (Math.round(blue) << 16) | (Math.round(green) << 8) | Math.round(red)) >>> 0;
}
