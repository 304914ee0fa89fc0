import { isObject } from '../../base/checks.js';
import { show } from '../../base/errors.js';
import type { ToolSchemas } from '../answers/forms/call-form.js';
import { badField, unsupported } from './api-error.js';
import type { Fields } from './fields.js';
import type { TextFormat } from './text-format.js';

/** A tool that the model may call, as in OpenAI's API. */
export interface ChatTool {
  readonly type: 'function';
  readonly function: { readonly name: string } & Readonly<Record<string, unknown>>;
}

/** The tools of a chat, and whether the model must call them. */
export interface ToolUse {
  /** The tools that the model may call; null if none. */
  readonly tools: readonly ChatTool[] | null;
  /** `required`: at least one call is mandatory. An object names the tool that must be called. */
  readonly choice: 'auto' | 'required' | { readonly name: string };
  /** Whether an answer may have several calls. */
  readonly isParallel: boolean;
}

const MOST_TOOLS = 1024;
const TOOL_NAME = /^[\w.:-]{1,256}$/;

/** The fields about tools, under OpenAI's names. */
export const TOOL_NAMES = { tools: true, tool_choice: true, parallel_tool_calls: true };

/**
 * Reads the tools of a chat.
 * @param hasTemplate whether the model has its own template: only such a template knows how tools
 * are written
 * @throws ApiError
 */
export function readTools(fields: Fields, hasTemplate: boolean): ToolUse {
  const list = fields.list('tools', MOST_TOOLS, 'tools') ?? [];
  const isParallel = fields.boolean('parallel_tool_calls') ?? true;
  if (list.length > 0 && !hasTemplate)
    throw unsupported('tools', 'this model has no template that would say how they are written');
  const tools = list.map((tool, i) => {
    const name = isObject(tool) && isObject(tool['function']) ? tool['function']['name'] : undefined;
    if (!isObject(tool) || tool['type'] !== 'function' || typeof name !== 'string' || !TOOL_NAME.test(name))
      throw badField(`tools[${i}]`, show(tool), 'a tool: { type: "function", function: { name, … } }');
    const { parameters = null } = tool['function'] as Record<string, unknown>;
    if (parameters !== null && !isObject(parameters))
      throw badField(`tools[${i}].function.parameters`, show(parameters), 'a JSON schema of an object');
    return tool as unknown as ChatTool;
  });
  const choice = readChoice(fields, tools);
  if (choice === 'none' || tools.length === 0) return { tools: null, choice: 'auto', isParallel };
  // If a tool must be called, the model needs to know only this tool.
  const told =
    typeof choice === 'string' ? tools : tools.filter((tool) => tool.function.name === choice.name);
  return { tools: told, choice, isParallel };
}

function readChoice(fields: Fields, tools: readonly ChatTool[]): ToolUse['choice'] | 'none' {
  const choice = fields.get('tool_choice') ?? 'auto';
  if (choice === 'auto' || choice === 'none') return choice;
  const called = isObject(choice) && choice['type'] === 'function' ? choice['function'] : undefined;
  const name = isObject(called) ? called['name'] : undefined;
  if (choice !== 'required' && typeof name !== 'string')
    throw badField(
      'tool_choice',
      show(choice),
      '"auto", "required", "none" or { type: "function", function: { name } }',
    );
  if (tools.length === 0) throw badField('tool_choice', show(choice), 'absent where there are no tools');
  if (choice === 'required') return choice;
  if (!tools.some((tool) => tool.function.name === name))
    throw badField('tool_choice.function.name', show(name), 'the name of one of the tools');
  return { name: name as string };
}

/** The schemas of the parameters of tools, by their names. */
export function schemasOf(tools: readonly ChatTool[]): ToolSchemas {
  return new Map(tools.map((tool) => [tool.function.name, parametersOf(tool)]));
}

/**
 * The format of an answer that consists of calls; null if the model decides whether to call.
 * @param use with at least one tool
 */
export function calledFormat({ tools, choice, isParallel }: ToolUse): TextFormat | null {
  if (tools === null || choice === 'auto') return null;
  if (choice !== 'required') return { type: 'json_schema', schema: parametersOf(tools[0]) };
  // References within a tool's schema are relative to the place of that schema here.
  const definitions = tools.map(
    (tool, i) => [`tool${i}`, moved(parametersOf(tool), `#/$defs/tool${i}`)] as const,
  );
  const calls = tools.map((tool, i) => ({
    type: 'object',
    properties: { name: { const: tool.function.name }, parameters: { $ref: `#/$defs/tool${i}` } },
    required: ['name', 'parameters'],
    additionalProperties: false,
  }));
  const schema = {
    type: 'array',
    items: { anyOf: calls },
    minItems: 1,
    ...(!isParallel && { maxItems: 1 }),
    $defs: Object.fromEntries(definitions),
  };
  return { type: 'json_schema', schema };
}

/** A tool without declared parameters accepts none. */
const NO_PARAMETERS = { type: 'object', properties: {}, additionalProperties: false };

function parametersOf(tool: ChatTool): Readonly<Record<string, unknown>> {
  const { parameters } = tool.function;
  return isObject(parameters) && Object.keys(parameters).length > 0 ? parameters : NO_PARAMETERS;
}

/** Keywords whose values are not schemas. */
const VALUES = new Set(['const', 'enum', 'default', 'examples']);
/** The maximum nesting depth of schemas; the conversion to a grammar refuses deeper ones. */
const MOST_NESTING = 200;

/** A copy of a schema whose internal references begin at `base`. */
function moved(schema: unknown, base: string, depth = 0): unknown {
  if (depth > MOST_NESTING)
    throw badField('tools', 'more', `schemas of at most ${MOST_NESTING} schemas within each other`);
  if (Array.isArray(schema)) return schema.map((each) => moved(each, base, depth + 1));
  if (!isObject(schema)) return schema;
  return Object.fromEntries(
    Object.entries(schema).map(([name, value]) => {
      if (name === '$ref' && typeof value === 'string' && value.startsWith('#'))
        return [name, base + value.slice(1)];
      return [name, VALUES.has(name) ? value : moved(value, base, depth + 1)];
    }),
  );
}
