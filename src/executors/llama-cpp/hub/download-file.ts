import { createHash, type Hash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open, rm, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { BlockstepError } from '../../../base/errors.js';
import { inWords } from '../gguf/memory-needs.js';
import { downloadError, systemWords } from './download-error.js';
import { type Hub, Unavailable } from './hub.js';
import type { HubName } from './hub-name.js';
import type { HubFile } from './listing.js';

/** Tries in a row that may bring no byte. */
const MOST_TRIES = 5;
const CHUNK = 2 ** 20;

/** Source and observer of a download. */
export interface Fetching {
  readonly hub: Hub;
  readonly from: HubName;
  readonly commit: string;
  readonly signal: AbortSignal | null;
  /** Milliseconds before the second try. Later tries wait longer. */
  readonly pauseMs: number;
  /**
   * Called with the number of new bytes, bytes of an earlier try included. A negative number means
   * lost bytes.
   */
  readonly onBytes: (bytes: number) => void;
}

/**
 * Downloads a file. The download continues where an earlier try ended, and ends when the whole file
 * has the expected hash.
 * @param path the growing file. It stays there if the download is interrupted. A wrong file is
 * removed
 * @throws by rejection ERR_BLOCKSTEP_DOWNLOAD; the reason of the signal
 */
export async function downloadFile(file: HubFile, path: string, fetching: Fetching): Promise<void> {
  let handle: FileHandle;
  try {
    const { O_RDWR, O_CREAT, O_NOFOLLOW = 0 } = constants;
    handle = await open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0o644);
  } catch (error) {
    throw downloadError(`the file ${path} cannot be written: ${systemWords(error)}`, error);
  }
  let isRight = false;
  let isWrong = false;
  try {
    const growing = new GrowingFile(handle, file);
    const before = await growing.readWhatIsThere(fetching.signal);
    fetching.onBytes(before);
    await checkRoom(path, file.size - before);
    isRight = await fetchRest(growing, file, fetching);
    // The bytes of an earlier try may be damaged, so the file is downloaded again from the start,
    // once.
    if (!isRight && before > 0) {
      fetching.onBytes(-growing.length);
      await growing.clear();
      isRight = await fetchRest(growing, file, fetching);
    }
    isWrong = !isRight;
    await handle.sync();
  } catch (error) {
    if (systemWords(error) !== 'ENOSPC') throw error;
    throw downloadError(`there is no room for ${path}: the part that is there is kept`, error);
  } finally {
    await handle.close();
    if (isWrong) await rm(path, { force: true });
  }
  if (!isRight)
    throw downloadError(
      `${file.path} does not match the hub's description: its ${file.size} bytes do not have the hash ${file.hash}`,
    );
}

/** @returns whether the whole file has its hash */
async function fetchRest(growing: GrowingFile, file: HubFile, fetching: Fetching): Promise<boolean> {
  const { hub, from, commit, signal, pauseMs, onBytes } = fetching;
  for (let tries = 1; growing.length < file.size; tries++) {
    const before = growing.length;
    try {
      const { start, body } = await hub.open(from, commit, file.path, before);
      if (start !== before) {
        onBytes(-before);
        await growing.clear();
      }
      for await (const chunk of body) {
        if (growing.length + chunk.length > file.size)
          throw downloadError(
            `the hub sends more of ${file.path} than the ${file.size} bytes that it announced`,
          );
        await growing.append(chunk);
        onBytes(chunk.length);
      }
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof BlockstepError || isOfFiles(error)) throw error;
      if (growing.length <= before && tries >= MOST_TRIES)
        throw downloadError(`${file.path} broke off at byte ${growing.length}: ${systemWords(error)}`, error);
    }
    if (growing.length === file.size) break;
    if (growing.length > before) tries = 0;
    else if (tries >= MOST_TRIES)
      throw downloadError(`${file.path} ends at byte ${growing.length}, but should have ${file.size}`);
    else await setTimeout(tries * pauseMs, undefined, signal === null ? {} : { signal });
  }
  return growing.hasItsHash();
}

/** Refuses a download that the disk has no room for, if the system reports its free space. */
async function checkRoom(path: string, missing: number): Promise<void> {
  const { bavail, bsize } = await statfs(dirname(path));
  const free = bavail * bsize;
  if (missing <= free) return;
  throw downloadError(`${path} takes ${inWords(missing)} more, and ${inWords(free)} are free there`);
}

function isOfFiles(error: unknown): boolean {
  const { code, syscall } = error as NodeJS.ErrnoException;
  return !(error instanceof Unavailable) && (code === 'ENOSPC' || syscall === 'write');
}

/** A file that is written from start to end, and its hash. */
class GrowingFile {
  readonly #handle: FileHandle;
  readonly #file: HubFile;
  #hash: Hash;
  length = 0;

  constructor(handle: FileHandle, file: HubFile) {
    this.#handle = handle;
    this.#file = file;
    this.#hash = hashFor(file);
  }

  /** @returns bytes of an earlier try */
  async readWhatIsThere(signal: AbortSignal | null): Promise<number> {
    const { size } = await this.#handle.stat();
    if (size > this.#file.size) {
      await this.clear();
      return 0;
    }
    const chunk = Buffer.alloc(Math.min(size, CHUNK));
    while (this.length < size) {
      signal?.throwIfAborted();
      const { bytesRead } = await this.#handle.read(chunk, 0, chunk.length, this.length);
      if (bytesRead === 0) break;
      this.#hash.update(chunk.subarray(0, bytesRead));
      this.length += bytesRead;
    }
    return this.length;
  }

  async append(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; ) {
      const { bytesWritten } = await this.#handle.write(bytes, at, bytes.length - at, this.length + at);
      at += bytesWritten;
    }
    this.#hash.update(bytes);
    this.length += bytes.length;
  }

  async clear(): Promise<void> {
    await this.#handle.truncate(0);
    this.#hash = hashFor(this.#file);
    this.length = 0;
  }

  hasItsHash(): boolean {
    return this.#hash.copy().digest('hex') === this.#file.hash.replace(/^\w+:/, '');
  }
}

function hashFor({ hash, size }: HubFile): Hash {
  if (hash.startsWith('sha256:')) return createHash('sha256');
  return createHash('sha1').update(`blob ${size}\0`);
}
