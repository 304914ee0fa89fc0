import { Callable, Undefined, type Value } from './values.js';

/** `loop`: the position within a loop. */
export class Loop {
  readonly #items: readonly Value[];
  #index = 0;
  #last: Value = undefined;

  constructor(items: readonly Value[]) {
    this.#items = items;
  }

  go(index: number): void {
    this.#index = index;
  }

  /** An attribute; undefined if there is none with that name. */
  attribute(name: string): Value {
    const { length } = this.#items;
    const index = this.#index;
    const item = (at: number): Value =>
      at in this.#items ? this.#items[at] : new Undefined('there is no such item');
    switch (name) {
      case 'index':
        return index + 1;
      case 'index0':
        return index;
      case 'revindex':
        return length - index;
      case 'revindex0':
        return length - index - 1;
      case 'first':
        return index === 0;
      case 'last':
        return index === length - 1;
      case 'length':
        return length;
      case 'depth':
        return 1;
      case 'depth0':
        return 0;
      case 'previtem':
        return item(index - 1);
      case 'nextitem':
        return item(index + 1);
      case 'cycle':
        return new Callable('cycle', (args) => args[index % args.length]);
      case 'changed':
        return new Callable('changed', ([value]) => {
          const changed = this.#last !== value;
          this.#last = value;
          return changed;
        });
      default:
        return undefined;
    }
  }
}
