// Descriptions of the groups of cases.
import type { Group } from '../rows/row.js';

/** The title and subject of a group of figures, for readers of the page. */
export interface GroupWords {
  title: string;
  intro: string;
}

export const GROUP_WORDS: Record<Group, GroupWords> = {
  calibration: {
    title: 'The machine itself',
    intro:
      'What to set the rest in relation to: a bare loop over 256 request objects with the branches of a decode, and a native call that does nothing.',
  },
  decode: {
    title: 'A decode step',
    intro:
      'One whole step, schedule() and update(), named by the number of running requests. Evicting: every block that is taken evicts a cached one. Depth 2: two steps in flight. Drafts 3: three draft tokens for each request.',
  },
  mixed: {
    title: 'A mixed step',
    intro:
      'One whole step of a full scheduler: prefills beside decodes, requests that end and are replaced. The schedule half is schedule() alone.',
  },
  lives: {
    title: 'Schedulers made and disposed in a loop',
    intro:
      'Steps of 64 decodes in the first schedulers of a process, one after another: the mean of each part of a life. V8 compiles a step in the first part, and again where a later scheduler is unlike the ones before.',
  },
  operations: {
    title: 'A request of 2,048 tokens',
    intro:
      'In pools of 10 thousand to 1 million blocks. A cached pool has its free queue full of cached blocks, so that every block that is taken evicts one; an empty pool has none.',
  },
  'kv-groups': {
    title: 'KV cache groups',
    intro:
      'A step of 256 decodes, and the admission of a prompt of 126,000 cached tokens, for models whose layers are not all alike: full attention, with sliding windows or states beside it.',
  },
  tables: {
    title: 'Tables for a model runner',
    intro: 'Gathering the block tables and slot mappings of a step, by the number of its requests.',
  },
  reference: {
    title: 'A step of the reference executor',
    intro: 'It reads every sequence back and verifies it, so a step costs what its sequences are long.',
  },
  transfers: {
    title: 'KV transfers',
    intro:
      'Draining completions and submitting copies; and the throughput of a host lane as a multiple of that of a plain memcpy of the same blocks.',
  },
  heap: {
    title: 'Memory that a step allocates',
    intro:
      'On the heap of V8, garbage included. What a step allocates for each request is the slope between 64 and 1,024 requests: a figure below 0 says no more than that none was found.',
  },
  engine: {
    title: 'Through an engine',
    intro:
      'The same steps through an Engine with an executor that does nothing, and streams that read the tokens.',
  },
  cuda: {
    title: 'Steps mirrored on a GPU',
    intro: 'The steps of decode with the state mirrored on a GPU, and not.',
  },
};
