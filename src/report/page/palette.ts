/**
 * Colours of the light scheme. In both schemes text has a contrast of at least 4.5, and lines of
 * charts of at least 3.
 */
const LIGHT = {
  page: '#f6f7f9',
  panel: '#ffffff',
  text: '#14181d',
  muted: '#59626d',
  axis: '#a3abb5',
  grid: '#eceef1',
  shade: '#8c959f22',
  border: '#e0e4e9',
  /** Figures from the cost model. */
  virtual: '#0b5fc0',
  /** Figures from a clock. */
  measured: '#b04f00',
  /** Warnings. */
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

/** The colours as CSS variables: in the reader's scheme, and light on paper. */
export const PALETTE = `:root { color-scheme: light dark; ${variables(LIGHT)} }
@media (prefers-color-scheme: dark) { :root { ${variables(DARK)} } }
@media print { :root { color-scheme: light; ${variables(LIGHT)} } }`;
