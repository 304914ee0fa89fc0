const YEAR = String.raw`(?!0000)\d{4}`;
const LEAP_YEAR = String.raw`(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)`;
const MONTH_DAY = String.raw`(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))`;
const DATE = `(?:${YEAR}-${MONTH_DAY}|${LEAP_YEAR}-02-29)`;
const CLOCK = String.raw`(?:[01]\d|2[0-3]):[0-5]\d`;
const TIME = String.raw`${CLOCK}:[0-5]\d(?:\.\d{1,6})?(?:Z|[+-]${CLOCK})`;
const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
/**
 * Hosts in addresses are names. The last label begins with a letter, because a label of digits
 * would be read as a number.
 */
const HOST = String.raw`(?:[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*\.)*[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*`;
const BYTE = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
const IPV4 = String.raw`(?:${BYTE}\.){3}${BYTE}`;
const WORD = '[0-9a-fA-F]{1,4}';
const BASE64 = '^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$';
const ATOM = "[A-Za-z0-9_'+-]*[A-Za-z0-9_+-]";

const PATH = "(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*";

function ipv6(): string {
  const ways = [`(?:${WORD}:){7}${WORD}`, `(?:${WORD}:){1,7}:`];
  for (let i = 1; i <= 6; i++) ways.push(`(?:${WORD}:){1,${7 - i}}(?::${WORD}){1,${i}}`);
  return `(?:${ways.join('|')}|:(?:(?::${WORD}){1,7}|:))`;
}

function uuid(versions: string): string {
  return `^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[${versions}][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$`;
}

/** The supported formats of texts, each as a pattern. A pattern may allow less than its format. */
export const FORMATS: Readonly<Record<string, string>> = {
  date: `^${DATE}$`,
  time: `^${TIME}$`,
  'date-time': `^${DATE}T${TIME}$`,
  duration: String.raw`^P(?=\d|T)(?:\d{1,4}Y)?(?:\d{1,4}M)?(?:\d{1,4}D)?(?:T(?=\d)(?:\d{1,4}H)?(?:\d{1,4}M)?(?:\d{1,4}S)?)?$`,
  email: String.raw`^${ATOM}(?:\.${ATOM})*@(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]{2,}$`,
  hostname: String.raw`^${LABEL}(?:\.${LABEL})*$`,
  ipv4: `^${IPV4}$`,
  ipv6: `^${ipv6()}$`,
  uri: String.raw`^[A-Za-z][A-Za-z0-9+.-]*:\/\/${HOST}(?::[1-9]\d{0,3})?(?:[/?]${PATH})?(?:#${PATH})?$`,
  uuid: uuid('1-8'),
  ...Object.fromEntries([...'12345678'].map((version) => [`uuid${version}`, uuid(version)])),
  base64: BASE64,
  byte: BASE64,
  base64url: '^(?:[A-Za-z0-9_-]{4})*$',
};

/** Formats that only describe a value. They constrain no text. */
export const NOTED_FORMATS: ReadonlySet<string> = new Set([
  ...['password', 'binary', 'path', 'file-path', 'directory-path', 'float', 'double', 'decimal', 'int64'],
]);
