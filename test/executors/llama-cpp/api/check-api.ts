// Makes the program with which the compiler compares blockstep's part of llama.cpp's API with
// llama.cpp's headers.

/** Parts of a description of a C API, as far as they can be compared. */
interface Description {
  readonly structs: ReadonlyMap<string, readonly string[]>;
  readonly functions: readonly string[];
  readonly values: ReadonlyMap<string, string>;
}

/** Reads what `api.h` declares: it has one field and one function a line. */
export function readApi(text: string): Description {
  const code = text.replace(/\/\/.*$/gm, '');
  const structs = new Map<string, string[]>();
  for (const [, name, body] of code.matchAll(/^struct (\w+) \{([^}]*)\};/gm))
    structs.set(
      name,
      [...body.matchAll(/(\w+)(?:\[\d+\])?;/g)].map(([, field]) => field),
    );
  const functions = [...code.matchAll(/^(?!typedef|struct)[\w* ]+?\b(\w+)\([^;{]*\);/gm)].map(
    ([, name]) => name,
  );
  const enums = [...code.matchAll(/^enum \w+ : int32_t \{([^}]*)\};/gm)].map(([, body]) => body);
  const values = new Map<string, string>();
  for (const body of enums)
    for (const [, name, value] of body.matchAll(/(\w+) = (-?\d+)/g)) values.set(name, value);
  return { structs, functions, values };
}

/**
 * A program that compiles exactly if a description of a C API agrees with the API's own headers. It
 * compares structs field by field, functions argument by argument, and the values of enumerators.
 */
export function checkingProgram({ structs, functions, values }: Description): string {
  const lines = [
    '#include <cstddef>',
    '#include <cstdint>',
    '#include <type_traits>',
    '#include "llama.h"',
    '#include "ggml-backend-impl.h"',
    '#include "ggml-cpu-impl.h"',
    'namespace ours {',
    '#include "api.h"',
    '}',
    'template <typename A, typename B> constexpr bool alike = sizeof(A) == sizeof(B) && alignof(A) == alignof(B) &&',
    '  std::is_pointer_v<A> == std::is_pointer_v<B> && std::is_floating_point_v<A> == std::is_floating_point_v<B> &&',
    '  std::is_class_v<A> == std::is_class_v<B> &&',
    '  (std::is_integral_v<A> || std::is_enum_v<A>) == (std::is_integral_v<B> || std::is_enum_v<B>) &&',
    '  (!std::is_integral_v<A> || !std::is_integral_v<B> || std::is_signed_v<A> == std::is_signed_v<B>);',
    'template <> constexpr bool alike<void, void> = true;',
    'template <typename A, typename B> struct Same : std::false_type {};',
    'template <typename A, typename... As, typename B, typename... Bs> struct Same<A(As...), B(Bs...)> {',
    '  static constexpr bool value = [] {',
    '    if constexpr (sizeof...(As) != sizeof...(Bs)) return false; else return alike<A, B> && (alike<As, Bs> && ...);',
    '  }();',
    '};',
  ];
  for (const [name, fields] of structs) {
    lines.push(`static_assert(sizeof(ours::${name}) == sizeof(::${name}), "${name}");`);
    for (const field of fields) {
      const what = `"${name}::${field}"`;
      lines.push(
        `static_assert(offsetof(ours::${name}, ${field}) == offsetof(::${name}, ${field}), ${what});`,
      );
      lines.push(
        `static_assert(alike<decltype(ours::${name}::${field}), decltype(::${name}::${field})>, ${what});`,
      );
    }
  }
  for (const name of functions)
    lines.push(`static_assert(Same<decltype(ours::${name}), decltype(::${name})>::value, "${name}");`);
  for (const [name, value] of values)
    lines.push(`static_assert(static_cast<int>(::${name}) == ${value}, "${name}");`);
  return `${lines.join('\n')}\n`;
}
