// Part of npm run build:ts: makes one script of browser/, which the page carries.
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));
const bundle = await rolldown({ input: path('./browser/main.ts'), platform: 'browser', logLevel: 'warn' });
await bundle.write({ file: path('../../../dist/serve/page/page-script.js'), format: 'esm', minify: true });
await bundle.close();
