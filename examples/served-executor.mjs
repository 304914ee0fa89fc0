// An executor of your own behind `npx blockstep serve --executor ./served-executor.mjs`: it says the prompt again. The default export is
// called once, with the options of the engine, and the vocabulary that turns text into tokens and back.
export default function make({ options, vocabulary }) {
  const { numBlocks, blockSize } = options;
  // Where a model keeps keys and values, this one keeps tokens.
  const kv = new Int32Array(numBlocks * blockSize);

  /** The token that is kept for a position of an entry. */
  function read({ blockTable, maxBlocksPerRow }, entry, position) {
    const block = blockTable[entry * maxBlocksPerRow + Math.floor(position / blockSize)];
    return kv[block * blockSize + (position % blockSize)];
  }

  const executor = {
    limits: { numBlocks, blockSize },
    execute(plan, tables) {
      for (let t = 0; t < plan.totalTokens; t++) kv[Number(tables.slotMapping[t])] = tables.inputIds[t];
      const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests));
      const tokens = [];
      for (let i = 0; i < plan.numRequests; i++) {
        if (counts[i] === 0) continue; // its prompt is not complete
        const { numPromptTokens } = plan.requests[i];
        const position = tables.seqLens[i] - numPromptTokens;
        tokens.push(position < numPromptTokens ? read(tables, i, position) : vocabulary.endOfText);
      }
      return { tokens: Int32Array.from(tokens), counts };
    },
  };
  return { executor, model: { id: 'parrot' } };
}
