// HTML and scripts are escaped, with any content.
import { createHash } from 'node:crypto';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { escapeText, html } from '../../src/report/markup/html.js';
import { embedJson, embedScript } from '../../src/report/page/script.js';

const HOSTILE = `</script><script>alert(1)</script> <!-- " ' & <img src=x onerror="alert(1)">`;

describe('html', () => {
  it('escapes every value that is no HTML, in text and in attributes', () => {
    const { source } = html`<p title="${HOSTILE}">${HOSTILE}</p>`;
    expect(source.match(/[<>]/g)).toHaveLength(4);
    expect(source.match(/"/g)).toHaveLength(2);
    expect(source).not.toContain("'");
    expect(html`${'&amp;'}`.source).toBe('&amp;amp;');
  });

  it('joins lists, leaves out what is not there, and takes HTML as it is', () => {
    const inner = html`<b>${'<'}</b>`;
    expect(html`${[inner, 1, [null, 'x', false]]}`.source).toBe('<b>&lt;</b>1x');
  });

  it('leaves nothing that cannot stand in a document', () => {
    expect(escapeText('a\u0000b\u001bc\ud800d\u0085')).toBe('a\ufffdb\ufffdc\ufffdd\ufffd');
    expect(escapeText('é 塩 🂡 \t\n')).toBe('é 塩 🂡 \t\n');
  });
});

describe('a script', () => {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text
  const values = ['"</script>"', '`<!-- ${1}`', '/<script/.test("<SCRIPT>".toLowerCase())', '"<b>"'];
  const source = `globalThis.seen = [${values.join(', ')}];`;

  it('cannot be ended or commented out from inside, and means the same', () => {
    const { element } = embedScript(source);
    const inside = element.source.slice('<script>'.length, -'</script>'.length);
    expect(inside).not.toMatch(/<\/script|<script|<!--/i);
    const [before, after] = [{ seen: [] }, { seen: [] }];
    runInNewContext(source, before);
    runInNewContext(inside, after);
    expect(after.seen).toEqual(['</script>', '<!-- 1', true, '<b>']);
    expect(after.seen).toEqual(before.seen);
  });

  it('is refused where the escape would break it', () => {
    expect(() => embedScript('const script = 1; const t = 2</script/.exec("")')).toThrow(SyntaxError);
  });

  it('comes with the hash of what the browser will see', () => {
    const { element, hash } = embedScript('let a;\r\nlet b;');
    expect(element.source).toBe('<script>let a;\nlet b;</script>');
    expect(hash).toBe(`'sha256-${createHash('sha256').update('let a;\nlet b;').digest('base64')}'`);
  });

  it('reads data back as it was', () => {
    const value = { [HOSTILE]: [HOSTILE, '\u2028', null, 1.5] };
    const { source: block } = embedJson('data', value);
    const inside = block.slice(block.indexOf('>') + 1, block.lastIndexOf('<'));
    expect(inside).not.toContain('<');
    expect(JSON.parse(inside)).toEqual(value);
  });
});
