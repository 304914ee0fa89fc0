import { grouped } from '../../../report/markup/figures.js';
import type { GroupHolding } from '../../../scheduler/inspect/group-stats.js';
import type { RequestFacts, RequestList } from '../answers.js';
import { element, say, wordsOf } from './elements.js';
import { Refusal, type Server } from './server.js';

/** Rows of the list; the filter finds other requests. */
const MOST_ROWS = 100;

/** The list of requests, and the details of the chosen request. */
export class RequestsView {
  readonly #server: Server;
  readonly #list = element('list', HTMLUListElement);
  readonly #filter = element('filter', HTMLInputElement);
  readonly #abort = element('abort', HTMLButtonElement);
  readonly #forget = element('forget', HTMLButtonElement);
  #ids: readonly string[] = [];
  /** The request with the keyboard focus, and the request that is shown. */
  #active: string | null = null;
  #chosen: string | null = null;
  /** The chosen request has ended, so no more details are requested. */
  #hasEnded = false;
  /**
   * Called with the blocks of the chosen request whenever they are known; null if no request is
   * chosen.
   */
  onBlocks: (blocks: ReadonlySet<number> | null) => void = () => {};

  constructor(server: Server) {
    this.#server = server;
    this.#filter.addEventListener('input', () => void this.refresh().catch(() => {}));
    this.#list.addEventListener('click', ({ target }) => {
      const row = target instanceof Element ? target.closest('li') : null;
      if (row !== null) this.choose(this.#ids[[...this.#list.children].indexOf(row)] ?? null);
    });
    this.#list.addEventListener('keydown', (event) => this.#key(event));
    this.#list.addEventListener('focus', () => {
      // A click has already chosen a row, and the list must not scroll away from under the pointer.
      if (this.#list.matches(':focus-visible')) this.#activate(this.#active ?? this.#ids[0] ?? null);
    });
    this.#abort.addEventListener('click', () => void this.#abortChosen());
    this.#forget.addEventListener('click', () => this.choose(null));
  }

  /** Requests the list, and the details of the chosen request. */
  async refresh(): Promise<void> {
    const match = encodeURIComponent(this.#filter.value.trim());
    const path = `requests?explain=false&limit=${MOST_ROWS}${match && `&match=${match}`}`;
    const { requests, total } = await this.#server.get<RequestList>(path);
    this.#ids = requests.map(({ id }) => id);
    while (this.#list.children.length > requests.length) this.#list.lastElementChild?.remove();
    while (this.#list.children.length < requests.length)
      this.#list.append(newRow(this.#list.children.length));
    requests.forEach(({ id, state, output_tokens }, i) => {
      const [name, what] = this.#list.children[i].children;
      setText(name, shortName(id));
      (name as HTMLElement).title = id;
      setText(what, `${state}, ${grouped(output_tokens)}`);
    });
    const rest = total - requests.length;
    say(
      'list-note',
      `${grouped(total)} under way${rest > 0 ? `; the first ${grouped(requests.length)} are listed` : ''}`,
    );
    this.#mark();
    await this.#describe();
  }

  /** Shows a request; null for none. */
  choose(id: string | null): void {
    this.#chosen = id;
    this.#hasEnded = false;
    this.#active = id ?? this.#active;
    this.#mark();
    element('detail', HTMLElement).hidden = id === null;
    this.#forget.disabled = id === null;
    this.#abort.disabled = id === null;
    if (id !== null) {
      void this.#describe().catch(() => {});
      return;
    }
    say('detail-id', 'No request is chosen');
    say('detail-explain', 'Choose one in the list, or a block that it holds.');
    element('detail-facts', HTMLDListElement).replaceChildren();
    this.onBlocks(null);
  }

  async #describe(): Promise<void> {
    const id = this.#chosen;
    if (id === null || this.#hasEnded) return;
    let facts: RequestFacts;
    try {
      facts = await this.#server.get<RequestFacts>(`requests/${encodeURIComponent(id)}`);
    } catch (error) {
      if (!(error instanceof Refusal) || error.status !== 404) throw error;
      if (id === this.#chosen) this.#sayEnded(id);
      return;
    }
    if (id !== this.#chosen) return;
    say('detail-id', facts.id);
    say('detail-explain', facts.explain);
    showFacts([
      ['prompt tokens', grouped(facts.prompt_tokens)],
      ['generated', `${grouped(facts.output_tokens)} of ${grouped(facts.max_tokens)}`],
      ['computed', grouped(facts.computed_tokens)],
      ['found in the cache', facts.cached_tokens === null ? '–' : grouped(facts.cached_tokens)],
      ['blocks', grouped(facts.blocks.length)],
      ...(facts.groups.length < 2 ? [] : facts.groups.map(inGroup)),
      ['preemptions', grouped(facts.preemptions)],
      ['priority', grouped(facts.priority)],
    ]);
    this.#abort.disabled = false;
    this.onBlocks(new Set(facts.blocks));
  }

  /** The last facts stay visible. Its blocks no longer belong to the request. */
  #sayEnded(id: string): void {
    say('detail-id', id);
    say('detail-explain', 'It has ended.');
    this.#abort.disabled = true;
    this.#hasEnded = true;
    this.onBlocks(null);
  }

  async #abortChosen(): Promise<void> {
    if (this.#chosen === null) return;
    this.#abort.disabled = true;
    try {
      await this.#server.post('abort_requests', { ids: [this.#chosen] });
    } catch (error) {
      say('detail-explain', `It was not aborted: ${wordsOf(error)}`);
    }
  }

  #key(event: KeyboardEvent): void {
    const steps: Readonly<Record<string, number>> = {
      ArrowUp: -1,
      ArrowDown: 1,
      Home: -MOST_ROWS,
      End: MOST_ROWS,
    };
    if (event.key === 'Enter' || event.key === ' ') this.choose(this.#active);
    else if (event.key === 'Escape') this.choose(null);
    else if (event.key in steps) {
      const at = this.#active === null ? -1 : this.#ids.indexOf(this.#active);
      const to = Math.min(this.#ids.length - 1, Math.max(0, at + steps[event.key]));
      this.#activate(this.#ids[to] ?? null);
    } else return;
    event.preventDefault();
  }

  #activate(id: string | null): void {
    this.#active = id;
    this.#mark();
    this.#list.querySelector('.active')?.scrollIntoView({ block: 'nearest' });
  }

  #mark(): void {
    let active = '';
    this.#ids.forEach((id, i) => {
      const row = this.#list.children[i];
      row.classList.toggle('active', id === this.#active);
      row.setAttribute('aria-selected', String(id === this.#chosen));
      if (id === this.#active) active = row.id;
    });
    if (active === '') this.#list.removeAttribute('aria-activedescendant');
    else this.#list.setAttribute('aria-activedescendant', active);
  }
}

/** A shortened id. All but eight of its 32 random digits tell the reader nothing more. */
function shortName(id: string): string {
  return id.replace(/^((?:chat)?cmpl-[\da-f]{8})[\da-f]{24}(?=-\d+$)/, '$1…');
}

function newRow(index: number): HTMLLIElement {
  const row = document.createElement('li');
  row.id = `request-${index}`;
  row.setAttribute('role', 'option');
  row.append(document.createElement('span'), document.createElement('span'));
  return row;
}

function setText(place: Element, text: string): void {
  if (place.textContent !== text) place.textContent = text;
}

/** The blocks of a request in one KV cache group. */
function inGroup({ name, blocks, places }: GroupHolding, group: number): [name: string, value: string] {
  return [`group ${group}, ${name}`, `${grouped(blocks)} in ${grouped(places)} places`];
}

function showFacts(facts: readonly (readonly [name: string, value: string])[]): void {
  const list = element('detail-facts', HTMLDListElement);
  while (list.children.length < facts.length) {
    const pair = document.createElement('div');
    pair.append(document.createElement('dt'), document.createElement('dd'));
    list.append(pair);
  }
  facts.forEach(([name, value], i) => {
    const [term, description] = list.children[i].children;
    setText(term, name);
    setText(description, value);
  });
}
