/** The guards of vllm-omni #3774 and of the reporter's patch, each on or off. */
export interface ReportedGuards {
  /** A scheduled id that nobody knows is skipped, where vLLM raises. */
  readonly getAndSkip: boolean;
  readonly purgeAtProcess: boolean;
  readonly purgeAtRestore: boolean;
  readonly realign: boolean;
  readonly sweep: boolean;
  /**
   * Whether a request that is ended from outside is forgotten by the adapter (`cleanup_receiver`). Before #3774 only the
   * save loop forgot requests, after their last chunk: an aborted request stayed `done receiving`, and so was never
   * parked again.
   */
  readonly cleanup: boolean;
}

export const NO_GUARDS: ReportedGuards = {
  getAndSkip: false,
  purgeAtProcess: false,
  purgeAtRestore: false,
  realign: false,
  sweep: false,
  cleanup: false,
};

export const ALL_GUARDS: ReportedGuards = {
  getAndSkip: true,
  purgeAtProcess: true,
  purgeAtRestore: true,
  realign: true,
  sweep: true,
  cleanup: true,
};
