/** A bug to be planted in `examples/host-tier.ts`. */
export interface Plant {
  /** The mistake, in words. */
  readonly name: string;
  /** Texts of the example, each of which occurs there once, and their replacements. */
  readonly changes: readonly (readonly [from: string, to: string])[];
  /** The report that the suite must make of it, among others. */
  readonly says: RegExp;
  /** The case that has to find it; default: any. */
  readonly finder?: string;
}

const HOLD = `    this.#view.hold(handle, 'store', \`tier \${job}\`);\n`;
const COMPLETE = `    this.#view.complete(handle, 'store', \`tier \${job}\`);\n`;

/** Mistakes that people make, one for each line of the checklist and more. */
export const PLANTS: readonly Plant[] = [
  {
    name: 'keeps a borrowed list',
    changes: [['const own = blocks.slice(-count);', 'const own = blocks.subarray(-count);']],
    says: /targets must be blocks|unwritten-read|writes block/,
  },
  {
    name: 'stores what is not settled',
    changes: [['this.#view.extent(request).numSettledTokens', 'this.#view.extent(request).numTokens']],
    says: /is written while it is copied away|-read/,
  },
  {
    name: 'stores what a failed step was to compute',
    changes: [
      [
        '      const request = plan.requests[i];\n',
        '      const request = plan.requests[i];\n      (this as any)[request.handle] = plan.numComputedTokens[i] + plan.numScheduledTokens[i];\n',
      ],
      [
        '    this.#storeUpTo(request, numSettledTokens);',
        "    const planned = Math.min((this as any)[request.handle] ?? 0, request.numTokens);\n    this.#storeUpTo(request, _reason === 'error' ? planned : numSettledTokens);",
      ],
    ],
    says: /-read/,
    finder: 'steps and rows fail, and the same prompts come again',
  },
  {
    name: 'ignores notBefore',
    changes: [['submit(load.places, load.blocks, notBefore)', 'submit(load.places, load.blocks)']],
    says: /before step \d+ was executed/,
  },
  {
    name: 'offers more than there is',
    changes: [
      [
        'return { numTokens: (next - first) * blockSize,',
        'if (next > first && next < end) next++;\n    return { numTokens: (next - first) * blockSize,',
      ],
    ],
    says: /-read/,
  },
  {
    name: 'loads for 0 tokens',
    changes: [
      [
        '    if (count === 0) return;\n',
        '    if (count === 0 && blocks.length > 0)\n      this.#loads.push({ handle: request.handle, blocks: blocks.slice(0, 1), places: Int32Array.of(0) });\n    if (count === 0) return;\n',
      ],
    ],
    says: /writes block \d+, which no load/,
  },
  {
    name: 'holds nothing while it stores',
    changes: [
      [HOLD, ''],
      [COMPLETE, ''],
    ],
    says: /is written while it is copied away/,
  },
  {
    name: 'never lets go of what it stored',
    changes: [[COMPLETE, '']],
    says: /uses of kind store|pinned or held|everything must end/,
  },
  {
    name: 'takes something when it is asked, and does not give it back',
    changes: [
      [
        '    let next = first;\n',
        "    let next = first;\n    if (!this.#done.has(-request.handle)) this.#view.hold(request.handle, 'lease', 'asked');\n    this.#done.set(-request.handle, 1);\n",
      ],
    ],
    says: /uses of kind lease|pinned or held|everything must end/,
  },
  {
    name: 'reports a load before it is over',
    changes: [
      [
        '    this.#queue.drain((number, verdict) => {',
        '    for (const job of this.#jobs.values())\n      if ("load" in job) finishedReceiving.push({ handle: job.load.handle, step: job.step });\n    this.#queue.drain((number, verdict) => {',
      ],
    ],
    says: /and a copy into its blocks is not over/,
  },
  {
    name: 'does not report loads that failed',
    changes: [
      [
        '      finishedReceiving.push(report);\n',
        '      if (verdict === Verdict.ok) finishedReceiving.push(report);\n',
      ],
      ['      else failedReceiving.push(report);\n', ''],
    ],
    says: /everything must end/,
    finder: 'copies fail, and requests with them',
  },
  {
    name: 'reports loads that failed as good ones',
    changes: [['      else failedReceiving.push(report);\n', '']],
    says: /unexpected-load|-read/,
    finder: 'copies fail, and requests with them',
  },
  {
    name: 'believes stores that failed',
    changes: [['if (over.verdict === Verdict.ok) this.#places', 'if (over.verdict > 0) this.#places']],
    says: /-read/,
    finder: 'copies fail, and requests with them',
  },
  {
    name: 'takes keys and block ids from two lists',
    changes: [
      [
        'Int32Array.from(indexes, (index) => blocks[index])',
        'Int32Array.from(indexes, (_, i) => blocks[from + i])',
      ],
    ],
    says: /-read/,
  },
  {
    name: 'reports every load twice',
    changes: [['      finishedReceiving.push(report);\n', '      finishedReceiving.push(report, report);\n']],
    says: /anomal|-completion|duplicate/,
  },
  {
    name: 'owns the blocks of everybody who ends, and reports nothing',
    changes: [['return { delayFree: false };', 'return { delayFree: true };']],
    says: /everything must end|requests whose blocks/,
  },
  {
    name: 'reports requests as sent of whose end it was not told',
    changes: [
      [
        'const output = { finishedReceiving, failedReceiving };',
        'const output = { finishedReceiving, failedReceiving, finishedSending: finishedReceiving };',
      ],
    ],
    says: /as sent, of whose end it was not told/,
  },
  {
    name: 'answers with a promise',
    changes: [['resetCache(): boolean {', 'async resetCache(): any {']],
    says: /resetCache answers a promise/,
  },
  {
    name: 'puts a function into its metadata',
    changes: [
      ['const orders = { loads: this.#loads,', 'const orders: any = { done() {}, loads: this.#loads,'],
    ],
    says: /could not be cloned/,
  },
  {
    name: 'keeps a plan',
    changes: [
      ['    const orders = {', '    (this as any).last ??= plan;\n    const orders = {'],
      [
        '    this.#done.delete(request.handle);\n',
        '    this.#done.delete(request.handle);\n    if ((this as any).last?.numRequests > 99) return { delayFree: true };\n',
      ],
    ],
    says: /revoked/,
  },
  {
    name: 'throws when its tier is full',
    changes: [
      [
        '    if (keys.length === 0) return;\n',
        '    if (this.#places.size > 20) throw new Error("full");\n    if (keys.length === 0) return;\n',
      ],
    ],
    says: /throws Error: full/,
  },
  {
    name: 'says that its tier was reset, and keeps it for ever',
    changes: [['    this.#places.clear();\n', '']],
    says: /-read|loads block|were loaded after/,
    finder: 'caches are reset',
  },
  {
    name: 'does not end its lanes',
    changes: [
      ['for (const part of [this.#toDevice, this.#toHost, this.#queue, this.#tier]) part.dispose();', ''],
    ],
    says: /and a copy is not over|must have no copies under way/,
    finder: 'the engine is disposed while everything is under way',
  },
  {
    name: 'does not bear a second shutdown',
    changes: [['  shutdown(): void {\n', '  shutdown(): void {\n    this.#toDevice.counts();\n']],
    says: /shutdown for the second time/,
  },
  {
    name: 'always has something to do',
    changes: [
      [
        '  resetCache(): boolean {',
        '  hasPendingWork(): boolean {\n    return true;\n  }\n\n  resetCache(): boolean {',
      ],
    ],
    says: /hasPendingWork\(\) must be false|everything must end/,
  },
  {
    name: 'takes the first half of a load that failed for good',
    changes: [
      [
        '      else failedReceiving.push(report);\n',
        `      else {
        const half = job.load.blocks.length >> 1;
        this.#arrived(job.load.handle, job.load.blocks.subarray(0, half));
        for (const block of job.load.blocks.subarray(half)) invalidBlocks.push({ block, handle: job.load.handle });
      }\n`,
      ],
      [
        'const failedReceiving: TransferReport[] = [];',
        'const failedReceiving: TransferReport[] = [];\n    const invalidBlocks: { block: number; handle: number }[] = [];',
      ],
      [
        'const output = { finishedReceiving, failedReceiving };',
        'const output = { finishedReceiving, failedReceiving, invalidBlocks };',
      ],
    ],
    says: /unexpected-load|-read|foreign-write/,
    finder: 'copies fail, and are recomputed',
  },
  {
    name: 'believes the rank that reports a store last',
    changes: [['if (over.verdict === Verdict.ok) this.#places', 'if (verdict === Verdict.ok) this.#places']],
    says: /-read/,
    finder: 'copies fail, and are recomputed',
  },
];

/** Mistakes in `examples/memo.ts`. */
export const MEMO_PLANTS: readonly Plant[] = [
  {
    name: 'keeps a borrowed list',
    changes: [['list.slice(-count)', 'list.subarray(-count)']],
    says: /targets must be blocks|unwritten-read|writes block/,
  },
  {
    name: 'keeps what is not settled',
    changes: [['this.#view.extent(request).numSettledTokens', 'request.numTokens']],
    says: /-read|foreign-write/,
  },
  {
    name: 'ignores notBefore',
    changes: [['submit(places, blocks, notBefore)', 'submit(places, blocks)']],
    says: /before step \d+ was executed/,
  },
  {
    name: 'takes blocks and places from two lists',
    changes: [['list.length - count + i', 'i']],
    says: /sources must be blocks|-read|foreign-write/,
  },
  {
    name: 'reports loads that failed as good ones',
    changes: [
      ['if (verdict === Verdict.ok) this.memory', 'this.memory'],
      ['      else failedReceiving.push({ handle, step });\n', ''],
    ],
    says: /unexpected-load|-read|foreign-write/,
    finder: 'copies fail, and requests with them',
  },
  {
    name: 'does not report loads',
    changes: [['      finishedReceiving.push({ handle, step });\n', '']],
    says: /everything must end/,
  },
];
