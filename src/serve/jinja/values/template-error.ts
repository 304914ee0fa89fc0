/** An error in a template. */
export class TemplateError extends Error {
  constructor(message: string, line?: number) {
    super(line === undefined ? message : `line ${line}: ${message}`);
    this.name = 'TemplateError';
  }
}
