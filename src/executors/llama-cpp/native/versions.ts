// The versions of llama.cpp that work.

/** A version of llama.cpp that works, and the packages that contain it. */
export interface LlamaVersion {
  /** Version of the packages `@node-llama-cpp/*`. */
  readonly packages: string;
  /** Release of llama.cpp. */
  readonly release: string;
  /** The commit that the library reports. */
  readonly commit: string;
}

/**
 * The versions of llama.cpp that native/llama/api/api.h describes. Its API changes without notice,
 * so other versions are refused. Add a new version here when the test of the API passes with its
 * headers.
 */
export const LLAMA_VERSIONS: readonly [LlamaVersion, ...LlamaVersion[]] = [
  { packages: '3.22.1', release: 'v0.5.0', commit: '0ad4a86' },
];
