/** Ends what is under way in workers, as an operator does before `Engine.fenceTransfers`. */
export function fenceAll(workers: readonly { fence(): void }[]): void {
  for (const worker of workers) worker.fence();
}
