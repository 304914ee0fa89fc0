import { grouped } from '../../../report/markup/figures.js';
import type { Present } from '../answers.js';
import { element } from './elements.js';

/**
 * The KV cache groups below the map's legend, if there are several: their blocks, and a button that
 * highlights them.
 */
export class GroupsView {
  readonly #list = element('groups', HTMLUListElement);
  #pressed: number | null = null;
  /** By group, as in `GroupStats.name`. */
  names: readonly string[] = [];
  /** Called with the group whose blocks are to be highlighted; null for none. */
  onPressed: (group: number | null) => void = () => {};

  constructor() {
    this.#list.addEventListener('click', ({ target }) => {
      const button = target instanceof Element ? target.closest('button') : null;
      if (button === null) return;
      const group = [...this.#list.querySelectorAll('button')].indexOf(button);
      this.press(group === this.#pressed ? null : group);
      this.onPressed(this.#pressed);
    });
  }

  show({ groups }: Present): void {
    this.names = groups.map(({ name }) => name);
    this.#list.hidden = groups.length < 2;
    if (this.#list.hidden) return;
    while (this.#list.children.length < groups.length) this.#list.append(newRow());
    groups.forEach(({ name, usedBlocks, cachedBlocks, nullPlaces, droppedBlocks }, g) => {
      const [button, what] = this.#list.children[g].children;
      const facts = [`${grouped(usedBlocks)} in use`, `${grouped(cachedBlocks)} with a hash`];
      if (droppedBlocks > 0)
        facts.push(`${grouped(nullPlaces)} places empty`, `${grouped(droppedBlocks)} let go`);
      setText(button, `${g}: ${name}`);
      setText(what, facts.join(', '));
    });
  }

  /** Marks the group whose blocks are highlighted; null for none. */
  press(group: number | null): void {
    this.#pressed = group;
    [...this.#list.querySelectorAll('button')].forEach((button, g) => {
      button.setAttribute('aria-pressed', String(g === group));
    });
  }
}

function newRow(): HTMLLIElement {
  const row = document.createElement('li');
  const button = document.createElement('button');
  button.type = 'button';
  button.setAttribute('aria-pressed', 'false');
  row.append(button, document.createElement('span'));
  return row;
}

function setText(place: Element, text: string): void {
  if (place.textContent !== text) place.textContent = text;
}
