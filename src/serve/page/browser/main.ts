/** The script of the server's page. It requests data from the server while the page is visible. */
import type { Figures } from '../answers.js';
import { element, say, wordsOf } from './elements.js';
import { FiguresView } from './figures-view.js';
import { GroupsView } from './groups-view.js';
import { MapView } from './map-view.js';
import { RequestsView } from './requests-view.js';
import { Refusal, Server } from './server.js';
import { Starter } from './starter.js';

const FIGURES_MS = 500;
const MAP_MS = 1000;
/** The delay before a retry after a failure. */
const RETRY_MS = 2000;

const server = new Server();
const figures = new FiguresView();
const groups = new GroupsView();
const map = new MapView(server);
const requests = new RequestsView(server);
const starter = new Starter(server);
const pause = element('pause', HTMLButtonElement);
let control = false;
let isPaused = false;

/** Repeats an action while the page is visible, with a fixed delay after each run. */
function repeat(everyMs: number, act: () => Promise<void>): () => void {
  let timer = 0;
  let isBusy = false;
  const once = async (): Promise<void> => {
    window.clearTimeout(timer);
    if (isBusy || document.hidden || !element('key-form', HTMLFormElement).hidden) return;
    isBusy = true;
    let next = everyMs;
    try {
      await act();
    } catch (error) {
      next = RETRY_MS;
      if (!(error instanceof Refusal && error.status === 401))
        figures.showHealth('no answer', wordsOf(error));
    }
    isBusy = false;
    timer = window.setTimeout(() => void once(), next);
  };
  return () => void once();
}

const loops = [
  repeat(FIGURES_MS, async () => {
    const now = await server.get<Figures>(`figures?after=${figures.newest}`);
    figures.show(now);
    showControl(now);
    if (now.present !== null) groups.show(now.present);
    map.groupNames = groups.names;
    document.documentElement.dataset['drawn'] = 'true';
  }),
  repeat(MAP_MS, () => map.refresh()),
  repeat(MAP_MS, async () => {
    if (control) await requests.refresh();
  }),
];
const resume = (): void => {
  for (const begin of loops) begin();
};

function showControl(now: Figures): void {
  const isFirst = now.control && !control;
  control = now.control;
  map.namesHolders = control;
  isPaused = now.paused !== 'none';
  pause.disabled = isPaused;
  if (isPaused) ask(false);
  element('resume-box', HTMLElement).hidden = !(control && isPaused);
  if (isFirst) void requests.refresh().catch(() => {});
}

map.onChosen = (id) => requests.choose(id);
requests.onBlocks = (blocks) => {
  // Showing a request ends the highlighting of a group.
  groups.press(null);
  map.pick(blocks);
};
groups.onPressed = (group) => {
  requests.choose(null);
  groups.press(group);
  map.pickGroup(group);
};
starter.onStarted = (id) => requests.choose(id);
/** Shows or hides the question whether to pause everybody's requests. */
function ask(isAsking: boolean): void {
  pause.hidden = isAsking;
  element('pause-question', HTMLElement).hidden = !isAsking;
}

/** Pauses or resumes the engine, and shows the outcome at once. */
function order(path: string): void {
  const done = server.post(path, {});
  done.catch((error: unknown) => figures.showHealth('no answer', wordsOf(error))).finally(resume);
}

pause.addEventListener('click', () => {
  ask(true);
  element('pause-no', HTMLButtonElement).focus();
});
element('pause-no', HTMLButtonElement).addEventListener('click', () => {
  ask(false);
  pause.focus();
});
element('pause-yes', HTMLButtonElement).addEventListener('click', () => {
  ask(false);
  order('pause?mode=keep');
});
element('resume', HTMLButtonElement).addEventListener('click', () => order('resume'));

const keyForm = element('key-form', HTMLFormElement);
server.onKeyNeeded = (why) => {
  const wasHidden = keyForm.hidden;
  keyForm.hidden = false;
  say('key-note', why);
  figures.showHealth('locked', 'the server asks for a key');
  if (wasHidden) element('key', HTMLInputElement).focus();
  document.documentElement.dataset['drawn'] = 'true';
};
keyForm.addEventListener('submit', (event) => {
  event.preventDefault();
  const field = element('key', HTMLInputElement);
  server.useKey(field.value.trim());
  field.value = '';
  keyForm.hidden = true;
  figures.showHealth('connecting', '');
  resume();
});
document.addEventListener('visibilitychange', resume);
resume();
