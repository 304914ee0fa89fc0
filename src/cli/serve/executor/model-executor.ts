import { readFileSync } from 'node:fs';
import { availableParallelism, freemem } from 'node:os';
import { basename } from 'node:path';
import { BlockstepError, badArgument, describeError } from '../../../base/errors.js';
import type { SamplingParams } from '../../../engine/executor/sampling-params.js';
import { readGguf } from '../../../executors/llama-cpp/gguf/gguf-file.js';
import { readLoras } from '../../../executors/llama-cpp/gguf/lora-file.js';
import { fittingPool, inWords, memoryNeeds } from '../../../executors/llama-cpp/gguf/memory-needs.js';
import {
  isEmbeddingModel,
  type ModelCard,
  readModelCard,
} from '../../../executors/llama-cpp/gguf/model-card.js';
import {
  findLlamaVariant,
  LlamaExecutor,
  type LlamaModel,
  openLlamaModel,
} from '../../../executors/llama-cpp/index.js';
import { NO_CONTEXT_SHIFT } from '../../../executors/llama-cpp/llama-options.js';
import { counted, grouped } from '../../../report/markup/figures.js';
import type { SchedulerOptions } from '../../../scheduler/options/options.js';
import { reasoningParserOf, toolCallParserOf } from '../../../serve/answers/parsers.js';
import type { Chat } from '../../../serve/api/chat.js';
import { modelOptions, SAMPLING_DEFAULTS } from '../../../serve/model/loaded-model.js';
import type { ModelOptions } from '../../../serve/model/model-options.js';
import type { Io } from '../../terminal/io.js';
import { embeddingExecutor } from './embedding-executor.js';
import { describeOffload, makeTiers, parseOffload } from './kv-offload.js';
import { Loading } from './loading.js';
import type { ModelFlags } from './model-flags.js';
import type { ServedExecutor } from './served-executor.js';

/** Most requests that run at once. Each further request slows down the steps of all others. */
const MAX_NUM_SEQS = 16;
const BLOCK_SIZE = 16;
/** Tokens of a step. On a CPU longer steps delay all requests; with a large model even these do. */
const STEP_TOKENS = { gpu: 2048, small: 512, large: 256 };
const LARGE_MODEL = 4 * 2 ** 30;
const GIB = 2 ** 30;

/** The scheduler options that the executor depends on. */
type Sizes = Required<
  Pick<
    SchedulerOptions,
    'blockSize' | 'maxNumSeqs' | 'maxNumBatchedTokens' | 'numSpeculativeTokens' | 'numBlocks' | 'maxModelLen'
  >
>;

/**
 * Loads the model of the command line, and makes its executor. All detectable mistakes are refused
 * before the model is loaded.
 * @param file of the model
 * @param given scheduler options from the command line; the others are chosen
 * @throws by rejection ERR_BLOCKSTEP_BAD_MODEL, ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_BAD_FILE,
 * ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_NO_PACKAGE, ERR_BLOCKSTEP_NO_NATIVE; the reason of
 * `io.signal`
 */
export async function modelExecutor(
  file: string,
  flags: ModelFlags,
  given: Partial<SchedulerOptions>,
  io: Io,
): Promise<ServedExecutor> {
  if (flags.ctx !== undefined && given.maxModelLen !== undefined)
    throw new BlockstepError(
      'ERR_BLOCKSTEP_BAD_ARG',
      '--ctx and --max-model-len are the same: give one of them',
    );
  const header = readGguf(file);
  const card = readModelCard(header);
  const chatTemplate = flags.chatTemplate === undefined ? null : readTemplate(flags.chatTemplate);
  checkForModel(card, flags, given);
  const offload = parseOffload(flags, card, given);
  const loras = Object.entries(flags.lora ?? {});
  const loraBytes = readLoras(loras, header);
  const wanted = { ...given, ...(flags.ctx !== undefined && { maxModelLen: flags.ctx }) };
  const { memory } = flags;
  // A library of the environment variable is used unchanged. Installed packages are searched for a
  // GPU.
  const looks = flags.variant === 'auto' && !process.env['BLOCKSTEP_LLAMA_LIBRARY'] && flags.gpuLayers !== 0;
  const variant = looks ? await findLlamaVariant() : flags.variant;
  const id = basename(file).replace(/(-00001-of-\d{5})?\.gguf$/i, '');
  if (isEmbeddingModel(card)) {
    const embedding = await load(file, card, flags, io);
    try {
      return await embeddingExecutor(embedding, id, flags, wanted);
    } catch (error) {
      embedding.dispose();
      throw error;
    }
  }
  // A GPU's memory is known once llama.cpp is loaded. A CPU's memory is read earlier.
  const isOnHost = variant === 'cpu' || (variant === 'auto' && process.platform !== 'darwin');
  const free = memory === undefined ? null : memory * GIB;
  // The memory is read before the weights are loaded, because mapped weights take memory only when
  // they are read.
  const onHost = (free ?? freeHostMemory()) - loraBytes - (offload?.hostBytes ?? 0);
  const early = isOnHost ? sizesFor(card, flags, wanted, onHost, false) : null;
  const model = await load(file, card, flags, io);
  let executor: LlamaExecutor | null = null;
  try {
    const gpus = model.devices.filter(({ isGpu }) => isGpu);
    const isOnGpu = gpus.length > 0 && (flags.gpuLayers ?? card.numLayers) >= card.numLayers;
    const there = isOnGpu ? (free ?? freeDeviceMemory(gpus)) - loraBytes : onHost;
    const sizes = early ?? sizesFor(card, flags, wanted, there, isOnGpu);
    const { threads, cacheType } = flags;
    executor = await LlamaExecutor.create({
      model,
      ...sizes,
      cacheType,
      ...(threads !== undefined && { threads }),
      kvTransfer: offload !== null,
    });
    const { canRollBack } = executor.limits;
    const { enablePrefixCaching = canRollBack } = given;
    const sampling: SamplingParams = { ...SAMPLING_DEFAULTS, ...card.sampling };
    const served = await modelOptions(model, {
      id,
      samplingDefaults: sampling,
      toolCallParser: flags.toolCallParser,
      reasoningParser: flags.reasoningParser,
      ...(chatTemplate !== null && { chatTemplate }),
    });
    const notes = [
      describeModel(
        model,
        executor,
        gpus.map(({ description }) => description),
      ),
      ...(isOnGpu ? [] : [describeAttention(model)]),
      describePool(card, flags, sizes, enablePrefixCaching),
      ...(offload === null ? [] : [describeOffload(offload)]),
      ...(loras.length === 0 ? [] : [`Adapters: ${loras.map(([name]) => name).join(', ')}.`]),
      describeSampling(sampling),
      describeForms(served),
      ...(await warnings(served, executor.threads, gpus.length > 0)),
    ];
    // Nothing fails behind this, so nobody has to close the tiers.
    const tiers = offload === null ? null : makeTiers(executor, offload);
    return {
      executor,
      ...tiers?.sides,
      model: served,
      options: {
        ...wanted,
        ...sizes,
        enablePrefixCaching,
        // Blocks on disk may be damaged, which costs a cache hit and no request.
        ...(tiers !== null && { loadFailurePolicy: given.loadFailurePolicy ?? 'recompute' }),
      },
      notes,
      example: {
        path: '/v1/chat/completions',
        body: { messages: [{ role: 'user', content: 'Hello! Who are you?' }], stream: true },
      },
      close: async () => {
        model.dispose();
        await tiers?.closed();
      },
    };
  } catch (error) {
    executor?.dispose();
    model.dispose();
    throw error;
  }
}

async function load(file: string, card: ModelCard, flags: ModelFlags, io: Io): Promise<LlamaModel> {
  const loading = new Loading(io.stderr, `${file} (${inWords(card.weightBytes)})`);
  try {
    const model = await openLlamaModel({
      path: file,
      variant: flags.variant,
      attention: flags.attention,
      ...(flags.lora !== undefined && { loras: flags.lora }),
      ...(flags.gpuLayers !== undefined && { gpuLayers: flags.gpuLayers }),
      onProgress: (share) => loading.update(share),
      signal: io.signal,
    });
    loading.done();
    return model;
  } catch (error) {
    loading.failed();
    throw error;
  }
}

/** The requested sizes. The other sizes are chosen to suit the model and to fit. */
function sizesFor(
  card: ModelCard,
  { cacheType }: ModelFlags,
  given: Partial<SchedulerOptions>,
  free: number,
  isOnGpu: boolean,
): Sizes {
  const onHost = card.weightBytes > LARGE_MODEL ? STEP_TOKENS.large : STEP_TOKENS.small;
  const {
    blockSize = BLOCK_SIZE,
    maxNumSeqs = MAX_NUM_SEQS,
    maxNumBatchedTokens = isOnGpu ? STEP_TOKENS.gpu : onHost,
    numSpeculativeTokens = 0,
    numBlocks = null,
    maxModelLen = null,
  } = given;
  const shape = { blockSize, maxNumSeqs, maxNumBatchedTokens, numBlocks, maxModelLen, cacheType };
  return {
    blockSize,
    maxNumSeqs,
    maxNumBatchedTokens,
    numSpeculativeTokens,
    ...fittingPool(card, shape, free),
  };
}

function readTemplate(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    const message = `the chat template ${path} cannot be read: ${describeError(cause)}`;
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_FILE', message, { cause });
  }
}

function describeModel({ info }: LlamaModel, { threads }: LlamaExecutor, gpus: readonly string[]): string {
  const { name, description, weightBytes, library } = info;
  const what = name === null ? description : `${name} (${description})`;
  const where = gpus.length > 0 ? gpus.join(', ') : `the CPU, in ${counted(threads, 'thread')}`;
  return `${what}, ${inWords(weightBytes)} of weights, by llama.cpp ${library.version} on ${where}.`;
}

/** The attention kernel, and why it is not blockstep's. */
function describeAttention({ info: { attention } }: LlamaModel): string {
  const { kernel, reason } = attention;
  if (kernel !== 'llama') return `Attention by blockstep (${kernel}); --attention llama has llama.cpp's own.`;
  return `Attention by llama.cpp${reason === '' ? '' : `, because blockstep's kernel cannot be used: ${reason}`}.`;
}

/** Warnings of likely surprises: no chat template, or threads that wait for a processor. */
async function warnings(
  { chatTemplate }: ModelOptions,
  threads: number,
  isOnGpu: boolean,
): Promise<string[]> {
  const said: string[] = [];
  try {
    await chatTemplate?.render(HELLO);
  } catch (error) {
    said.push(
      `Chats are refused. The chat template of the model: ${(error as Error).message}. Give another with --chat-template.`,
    );
  }
  const missing = chatTemplate?.missing ?? [];
  if (missing.length > 0)
    said.push(
      `The chat template names ${missing.join(', ')}, which blockstep does not have: chats that need it are refused.`,
    );
  const processors = availableParallelism();
  if (threads > processors && !isOnGpu)
    said.push(
      `${counted(threads, 'thread')} on ${counted(processors, 'processor')} wait for each other, which makes steps many times slower: without --threads blockstep picks a number that suits this machine.`,
    );
  return said;
}

const HELLO: Chat = {
  messages: [{ role: 'user', content: 'Hello', name: undefined }],
  tools: null,
  beginsAnswer: true,
  templateArguments: {},
};

function describeSampling(sampling: SamplingParams): string {
  // Numbers of 32 bits in a file have digits that nobody wrote.
  const named = Object.entries(sampling).map(
    ([name, value]) => `${name} ${Number((value as number).toFixed(4))}`,
  );
  return `Unless a request says otherwise: ${named.join(', ')}.`;
}

/** The formats in which the model calls tools and reasons. */
function describeForms({ chatTemplate, toolCallParser, reasoningParser }: ModelOptions): string {
  const source = chatTemplate?.source ?? null;
  const calls = toolCallParser === 'auto' ? toolCallParserOf(source) : toolCallParser;
  const thoughts = reasoningParser === 'auto' ? (reasoningParserOf(source) ?? 'none') : reasoningParser;
  return `Tool calls are parsed as ${calls}, reasoning as ${thoughts} (--tool-call-parser, --reasoning-parser).`;
}

function describePool(card: ModelCard, flags: ModelFlags, sizes: Sizes, cachesPrefixes: boolean): string {
  const { numBlocks, blockSize, maxModelLen, maxNumSeqs, maxNumBatchedTokens } = sizes;
  const tokens = (numBlocks - 1) * blockSize;
  const { perToken } = memoryNeeds(card, { ...sizes, cacheType: flags.cacheType });
  const takes = perToken === 0 ? '' : `, ${inWords(tokens * perToken)} as ${flags.cacheType}`;
  return [
    `Context ${counted(maxModelLen, 'token')} a request`,
    `KV cache ${counted(tokens, 'token')}${takes}`,
    `at most ${counted(maxNumSeqs, 'request')} and ${grouped(maxNumBatchedTokens)} tokens a step`,
    `prefix cache ${cachesPrefixes ? 'on' : 'off'}.`,
  ].join('; ');
}

/**
 * Default fraction of the free memory for a model. The estimate of its needs may be slightly too
 * low.
 */
const SHARE = 0.9;

/** Bytes of memory for a model on this machine, or in this container. */
function freeHostMemory(): number {
  // Node 20.13 and newer know the available memory, including a container's limit.
  const { availableMemory } = process as { availableMemory?: () => number };
  return SHARE * (availableMemory?.() ?? freemem());
}

/**
 * Bytes of memory for a model on GPUs.
 * @param devices with their free bytes before anything was loaded
 */
function freeDeviceMemory(devices: readonly { readonly freeBytes: number }[]): number {
  return SHARE * devices.reduce((sum, { freeBytes }) => sum + freeBytes, 0);
}

/** Sequences of llama.cpp's cache. A request needs one, or two with a sliding window. */
const MOST_SEQUENCES = 256;

/**
 * Refuses options that the model's file rules out, because loading may take minutes. The executor
 * checks its options again.
 * @param given scheduler options from the command line
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
function checkForModel(
  card: ModelCard,
  { variant, gpuLayers, lora, contextShift }: ModelFlags,
  given: Partial<SchedulerOptions>,
): void {
  if (contextShift) throw badArgument('--context-shift', 'true', `absent: ${NO_CONTEXT_SHIFT}`);
  const { maxNumSeqs = 1, numSpeculativeTokens = 0, enablePrefixCaching = false } = given;
  const { window, stateNumbers } = card;
  const hasStates = stateNumbers > 0;
  const most = window > 0 && !hasStates ? MOST_SEQUENCES / 2 : MOST_SEQUENCES;
  if (maxNumSeqs > most)
    throw badArgument('--max-num-seqs', String(maxNumSeqs), `at most ${most} with such a model`);
  if (numSpeculativeTokens > 0 && hasStates)
    throw badArgument('--num-speculative-tokens', String(numSpeculativeTokens), `0, ${STATES}`);
  if (enablePrefixCaching && hasStates)
    throw badArgument('--enable-prefix-caching', 'true', `absent, ${STATES}`);
  if (variant === 'cpu' && (gpuLayers ?? 0) > 0)
    throw badArgument('--gpu-layers', String(gpuLayers), 'absent or 0 with --variant cpu');
  if (lora !== undefined && isEmbeddingModel(card)) {
    const names = Object.keys(lora).join(', ');
    throw badArgument('--lora', names, 'absent with a model that generates no text');
  }
}

const STATES = 'since the model has states, which cannot go back';
