/**
 * The budget of a step: tokens to compute, and places of a batch, of which each request takes some
 * for its drafter too.
 */
export class Budget {
  #places: number;

  /**
   * @param tokens that the step may compute
   * @param places of the batch
   * @param slots places that each request takes beside its tokens
   */
  constructor(
    private tokens: number,
    places: number,
    private readonly slots: number,
  ) {
    this.#places = places;
  }

  /** Most tokens of the next request; nobody gets any if it is 0 or less. */
  get most(): number {
    return Math.min(this.tokens, this.#places - this.slots);
  }

  spend(tokens: number): void {
    this.tokens -= tokens;
    this.#places -= tokens + this.slots;
  }

  giveBack(tokens: number): void {
    this.tokens += tokens;
    this.#places += tokens + this.slots;
  }
}
