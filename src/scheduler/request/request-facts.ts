/** The shown fields of a request. */
interface Figures {
  readonly id: string;
  readonly handle: number;
  readonly status: string;
  readonly numPromptTokens: number;
  readonly numOutputTokens: number;
  readonly maxTokens: number;
  readonly numComputedTokens: number;
  readonly numCachedTokens: number;
  readonly numPreemptions: number;
  readonly finishReason: string | null;
  readonly failure: string | null;
}

/** The figures of a request on one line, for `util.inspect`. */
export function requestFacts(request: Figures): object {
  const { id, handle, status, numPromptTokens, numComputedTokens, numCachedTokens, maxTokens } = request;
  return {
    id,
    handle,
    status,
    promptTokens: numPromptTokens,
    outputTokens: `${request.numOutputTokens} of ${maxTokens}`,
    computed: numComputedTokens,
    cached: numCachedTokens < 0 ? undefined : numCachedTokens,
    preemptions: request.numPreemptions === 0 ? undefined : request.numPreemptions,
    finishReason: request.finishReason ?? undefined,
    failure: request.failure ?? undefined,
  };
}
