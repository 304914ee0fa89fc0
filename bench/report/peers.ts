/** A step of another scheduler over running decodes, in microseconds by the number of requests. */
export interface Peer {
  name: string;
  language: string;
  /** What its figure covers where that is not a whole step with all of its output. */
  covers?: string;
  /** Number of requests, then the time, or the smallest and the largest time seen. */
  points: readonly (readonly [requests: number, us: number, upTo?: number])[];
}

/** Where and how the peers were measured. */
export const PEERS_MEASURED =
  'measured by us in the same way, not published by the projects, on another machine: a virtual one with 2 cores of a Xeon.';

export const PEERS: readonly Peer[] = [
  {
    name: 'vLLM V1',
    language: 'Python',
    points: [
      [256, 1747],
      [1024, 8216],
    ],
  },
  {
    name: 'vllm.cpp',
    language: 'C++',
    points: [
      [256, 266],
      [1024, 1467],
    ],
  },
  {
    name: 'ScaleLLM',
    language: 'C++',
    covers: 'with a thinner output',
    points: [
      [256, 83],
      [1024, 558],
    ],
  },
  {
    name: 'mistral.rs',
    language: 'Rust',
    covers: 'the block bookkeeping alone',
    points: [[256, 7, 11]],
  },
];
