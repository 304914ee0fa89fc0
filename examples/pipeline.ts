/**
 * A pipeline of three stages that stream text into each other, in one process or in three.
 *
 * The `writer` goes on from the text that it is given. Its words go to the `speaker` in chunks of
 * four tokens while it is still writing. The speaker's answer to each chunk goes on to the
 * `singer`, which answers each chunk with one token. The models are stand-ins: they repeat what
 * they have read. With real ones this would be a language model, a talker, and a voice.
 *
 * In one process:
 *     npx tsx examples/pipeline.ts
 * In three processes, which a server of Redis or Valkey connects; each in a terminal of its own:
 *     npx tsx examples/pipeline.ts serve speaker redis://127.0.0.1:6379
 *     npx tsx examples/pipeline.ts serve singer redis://127.0.0.1:6379
 *     npx tsx examples/pipeline.ts ask redis://127.0.0.1:6379
 */
import { pathToFileURL } from 'node:url';
import { ReferenceExecutor } from 'blockstep';
import { Pipeline, type PipelineOptions, type StageOptions, StageServer } from 'blockstep/pipeline';
import { RedisTransport } from 'blockstep/pipeline/redis';
import { decode, encode } from 'gpt-tokenizer';

const TEXT = 'To be, or not to be, that is the question: whether to be or not';

/** An engine for one stage, with a model that stands in for a real one. */
function engine() {
  const sizes = { numBlocks: 256, blockSize: 16, maxNumSeqs: 8, maxNumBatchedTokens: 512, maxModelLen: 512 };
  return { ...sizes, executor: new ReferenceExecutor(sizes) };
}

/** The three stages. `input` of a stage may say how a chunk of the one before becomes its input; here the tokens go on as they are. */
const STAGES: Record<string, () => StageOptions> = {
  writer: () => ({ name: 'writer', engine: engine(), chunkTokens: 4 }),
  speaker: () => ({ name: 'speaker', engine: engine(), chunkTokens: 4, defaults: { maxTokens: 8 } }),
  // A stage of this kind computes a chunk at once, and keeps nothing between two chunks.
  singer: () => ({ name: 'singer', kind: 'generation', engine: engine() }),
};
const NAMES = Object.keys(STAGES);

/** Sends a text through a pipeline. @param write is given what each stage makes of it, piece by piece, while it is made */
export async function tell(
  options: PipelineOptions,
  text: string,
  write: (stage: string, piece: string) => void,
): Promise<void> {
  // At the end of the block the pipeline is shut down: its engines, and its place in the transport.
  await using pipeline = new Pipeline(options);
  pipeline.run();
  const request = { prompt: Int32Array.from(encode(text)), maxTokens: 16 };
  for await (const { stage, tokens } of pipeline.submit(request, { outputs: NAMES })) {
    if (tokens.length > 0) write(stage, decode([...tokens]));
  }
}

/** All stages in this process: nothing else is needed. */
export function here(): PipelineOptions {
  return { stages: NAMES.map((name) => STAGES[name]()) };
}

/** The first stage in this process, and the others wherever they are served. */
export async function overRedis(url: string): Promise<PipelineOptions> {
  const [writer, ...others] = NAMES;
  const elsewhere = others.map((name) => ({ name, remote: true as const }));
  return { stages: [STAGES[writer](), ...elsewhere], transport: await RedisTransport.open({ url }) };
}

/** Serves one stage until the process ends. */
export async function serve(name: string, url: string): Promise<StageServer> {
  const server = new StageServer({ stage: STAGES[name](), transport: await RedisTransport.open({ url }) });
  server.run();
  return server;
}

async function main([command, ...args]: string[]): Promise<void> {
  const print = (stage: string, piece: string): void => {
    process.stdout.write(`${stage.padStart(8)}: ${piece}\n`);
  };
  if (command === 'serve') {
    const server = await serve(args[0], args[1]);
    process.once('SIGTERM', () => void server.shutdown());
    process.stdout.write(`serving ${args[0]}\n`);
  } else await tell(command === 'ask' ? await overRedis(args[0]) : here(), TEXT, print);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main(process.argv.slice(2));
