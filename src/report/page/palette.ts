/** Colours of the light scheme, and of the dark one. Text has a contrast of 4.5 at least, lines of charts one of 3. */
const LIGHT = {
  page: '#f6f7f9',
  panel: '#ffffff',
  text: '#14181d',
  muted: '#59626d',
  axis: '#a3abb5',
  grid: '#eceef1',
  shade: '#8c959f22',
  border: '#e0e4e9',
  /** What the cost model decides. */
  virtual: '#0b5fc0',
  /** What a clock measured. */
  measured: '#b04f00',
  /** What must not be overlooked. */
  warning: '#b3261e',
};

const DARK: typeof LIGHT = {
  page: '#0e1116',
  panel: '#151a21',
  text: '#e9ecf0',
  muted: '#9ca6b2',
  axis: '#56606c',
  grid: '#222932',
  shade: '#a3adb822',
  border: '#27303a',
  virtual: '#62a8f5',
  measured: '#f2a154',
  warning: '#ff8a80',
};

const variables = (colors: typeof LIGHT): string =>
  Object.entries(colors)
    .map(([name, value]) => `--${name}: ${value};`)
    .join(' ');

/** The colours as style: by the reader's scheme, light where it is printed. */
export const PALETTE = `:root { color-scheme: light dark; ${variables(LIGHT)} }
@media (prefers-color-scheme: dark) { :root { ${variables(DARK)} } }
@media print { :root { color-scheme: light; ${variables(LIGHT)} } }`;
