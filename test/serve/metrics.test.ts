// Metrics: names, sums, the names in the page and the dashboard.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { Engine, ReferenceExecutor } from '../../src/index.js';
import { Buckets, tokenBounds } from '../../src/serve/metrics/buckets.js';
import { until } from '../support/waiting.js';
import { eventsOf, isEmpty, MODEL, serve } from './support/served.js';

/**
 * The values of a text of Prometheus, by name and labels; labels that every value has are left out.
 */
function parse(text: string): Map<string, number> {
  const values = new Map<string, number>();
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const [, name, labels, value] = /^([a-z_:A-Z0-9]+)\{([^}]*)\} (\S+)$/.exec(line)!;
    expect(labels).toContain(`model_name="${MODEL}",engine="0"`);
    const own = labels.replace(`model_name="${MODEL}",engine="0"`, '').replace(/^,/, '');
    values.set(own === '' ? name : `${name}{${own}}`, Number(value));
  }
  return values;
}

async function metricsOf(url: string): Promise<Map<string, number>> {
  const response = await fetch(`${url}/metrics`);
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  return parse(await response.text());
}

describe('/metrics', () => {
  it('has vLLM’s names, and the sums that vLLM promises', async () => {
    const { url, post } = await serve({ engine: { numBlocks: 60, maxNumSeqs: 4, maxModelLen: 512 } });
    const body = { prompt: 'one two three four five '.repeat(20), max_tokens: 30, ignore_eos: true };
    for (let i = 0; i < 3; i++) await post('/v1/completions', { ...body, n: 2 });
    await eventsOf(await post('/v1/completions', { ...body, stream: true }));
    await post('/v1/completions', { ...body, stop: ' three' });
    const values = await metricsOf(url);
    const get = (name: string): number => values.get(name) ?? Number.NaN;
    const total = get('vllm:prompt_tokens_total');
    expect(total).toBeGreaterThan(700);
    const [computed, local, external] = ['local_compute', 'local_cache_hit', 'external_kv_transfer'].map(
      (source) => get(`vllm:prompt_tokens_by_source_total{source="${source}"}`),
    );
    expect(computed + local + external).toBe(total);
    expect(get('vllm:prompt_tokens_cached_total')).toBe(local + external);
    expect(local).toBeGreaterThan(0);
    expect(get('vllm:prefix_cache_hits_total')).toBe(local);
    const ends = (reason: string): number => get(`vllm:request_success_total{finished_reason="${reason}"}`);
    expect([ends('length'), ends('stop'), ends('abort'), ends('error')]).toEqual([7, 1, 0, 0]);
    for (const name of [
      'e2e_request_latency',
      'time_to_first_token',
      'request_queue_time',
      'request_decode_time',
    ])
      expect(get(`vllm:${name}_seconds_count`)).toBe(8);
    expect(get('vllm:request_generation_tokens_sum')).toBe(get('vllm:generation_tokens_total'));
    expect(get('vllm:request_prompt_tokens_sum')).toBe(total);
    expect(get('vllm:request_prefill_kv_computed_tokens_sum')).toBe(computed);
    expect(get('vllm:request_params_n_count')).toBe(8);
    expect(get('vllm:request_params_n_bucket{le="1"}')).toBe(2);
    // Each choice has one output less that comes behind another one than it has tokens.
    expect(get('vllm:inter_token_latency_seconds_count')).toBe(get('vllm:generation_tokens_total') - 8);
    expect(get('vllm:iteration_tokens_total_count')).toBe(get('blockstep:steps_total'));
    expect(get('vllm:num_requests_running')).toBe(0);
    expect(get('vllm:engine_sleep_state{sleep_state="awake"}')).toBe(1);
    const waiting = ['capacity', 'deferred'].map((reason) =>
      get(`vllm:num_requests_waiting_by_reason{reason="${reason}"}`),
    );
    expect(waiting[0] + waiting[1]).toBe(get('vllm:num_requests_waiting'));
    // Buckets are cumulated, and the last one has all.
    const inter = [...values].filter(([name]) => name.startsWith('vllm:inter_token_latency_seconds_bucket'));
    expect(inter.map(([, value]) => value)).toEqual(inter.map(([, value]) => value).sort((a, b) => a - b));
    expect(inter.at(-1)).toEqual([
      'vllm:inter_token_latency_seconds_bucket{le="+Inf"}',
      get('vllm:inter_token_latency_seconds_count'),
    ]);
  });

  it('has what runs and waits at this moment', async () => {
    const { url, post, engine } = await serve({ engine: { maxNumSeqs: 2 }, latencyMs: 2 });
    const abort = new AbortController();
    const body = { prompt: 'one two one', max_tokens: 1500, ignore_eos: true };
    const asked = [1, 2, 3, 4, 5].map(() =>
      post('/v1/completions', body, { signal: abort.signal }).catch(() => {}),
    );
    await until(() => engine.numRunning === 2 && engine.stats().streams === 5, 'five requests');
    const values = await metricsOf(url);
    expect(values.get('vllm:num_requests_running')).toBe(2);
    expect(values.get('vllm:num_requests_waiting')).toBe(3);
    expect(values.get('vllm:kv_cache_usage_perc')).toBeGreaterThan(0);
    abort.abort();
    await Promise.all(asked);
    await until(() => isEmpty(engine), 'an empty engine');
    expect((await metricsOf(url)).get('vllm:request_success_total{finished_reason="abort"}')).toBe(5);
  });

  it('knows nothing of other engines of the process', async () => {
    const { url } = await serve();
    const options = { numBlocks: 64, blockSize: 4, maxNumSeqs: 4, maxModelLen: 64 };
    const other = new Engine({ ...options, executor: new ReferenceExecutor(options) });
    await other.generate([[1, 2, 3]], { maxTokens: 4 });
    await other.shutdown();
    expect((await metricsOf(url)).get('vllm:iteration_tokens_total_count')).toBe(0);
  });

  it('can be left out', async () => {
    const { url } = await serve({ serve: { metrics: false } });
    expect((await fetch(`${url}/metrics`)).status).toBe(404);
  });

  it('has every metric that the page of metrics and the dashboard name, and no other', async () => {
    const { url } = await serve();
    const text = await (await fetch(`${url}/metrics`)).text();
    const there = [...text.matchAll(/^# TYPE (\S+) (\w+)$/gm)].map(([, name, type]) =>
      type === 'counter' ? name.replace(/_total$/, '') : name,
    );
    const page = readFileSync(new URL('../../docs/metrics.md', import.meta.url), 'utf8');
    const table = page.slice(page.indexOf('## Prometheus'), page.indexOf('## Diagnostics channels'));
    const named = [...table.matchAll(/`((?:vllm|blockstep):\w+)`/g)].map(([, name]) => name);
    expect(named.sort()).toEqual(there.sort());
    const dashboard = readFileSync(new URL('../../docs/grafana.json', import.meta.url), 'utf8');
    const alerts = readFileSync(new URL('../../examples/deploy/alerts.yml', import.meta.url), 'utf8');
    expect(alerts.match(/- alert:/g)?.length).toBeGreaterThan(5);
    const shown = [...(dashboard + alerts).matchAll(/((?:vllm|blockstep):\w+)/g)].map(([, name]) =>
      name.replace(/_bucket$/, ''),
    );
    expect(shown.length).toBeGreaterThan(12);
    const all = text.matchAll(/^# TYPE (\S+)/gm);
    const names = new Set([...all].map(([, name]) => name));
    expect([...new Set(shown)].filter((name) => !names.has(name))).toEqual([]);
  });
});

describe('buckets', () => {
  it('count what is at most as large as their bounds', () => {
    const buckets = new Buckets([1, 2.5, 5]);
    for (const value of [0, 1, 1.1, 2.5, 5, 5.1, 100]) buckets.observe(value);
    expect(buckets.cumulated()).toEqual([2, 4, 5, 7]);
    expect(buckets.sum).toBeCloseTo(114.7);
    expect(tokenBounds(2048)).toEqual([1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000]);
  });
});
