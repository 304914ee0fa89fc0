// Part of npm run build:ts: makes one script of browser/, which the page carries.
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));

/** Writes the script of the page into a file. Returns the paths of the sources that it was made of. */
export async function packPage(file) {
  const bundle = await rolldown({ input: path('./browser/main.ts'), platform: 'browser', logLevel: 'warn' });
  try {
    const { output } = await bundle.write({ file, format: 'esm', minify: true });
    return output.flatMap((each) => (each.type === 'chunk' ? each.moduleIds : []));
  } finally {
    await bundle.close();
  }
}

if (process.argv[1] === import.meta.filename) await packPage(path('../../../dist/serve/page/page-script.js'));
